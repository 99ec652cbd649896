// api/queue_headers.h
//
// What the headers of a request say about its place in the queues (docs/api.md, "Queues"):
//
//   X-Gezel-Lane: interactive (unset: this) | background | ambient | batch
//   X-Gezel-Queue-Timeout: seconds that it may wait for memory or a place
//
// Headers, because every client library can send them beside a body that it checks itself.
#pragma once
#include "api/error.h"
#include "api/exchange.h"
#include "prompt/request.h"

namespace gezel::api {

inline constexpr int kLongestQueueTimeoutS = 28'800;  // a whole turn on this machine (spec 10 section 6.2)

// Sets `lane`, `queue.ambient` and `queue.wait_limit` of the request. Errors: `invalid_header`, naming the
// header, its value and what it may be.
ApiResult<void> read_queue_headers(const Headers& headers, prompt::GenerateRequest& request);

}  // namespace gezel::api
