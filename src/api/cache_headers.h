// api/cache_headers.h
//
// What the headers of a request say about prompts that come again (docs/api.md, "The prefix cache"):
//
//   X-Gezel-Parent: the session that this one was forked from; its slot is left to it for a while
//   X-Gezel-Ephemeral: 1   nothing behind the system text is kept
//   X-Gezel-Debug: 1       the answer says with text where the prompt left what was computed before
//
// X-Gezel-Session itself is one of several names for a conversation; affinity_key() reads it.
#pragma once
#include <string>

#include "api/error.h"
#include "api/exchange.h"
#include "engine/cache.h"
#include "prompt/request.h"

namespace gezel::api {

// Sets `parent_session`, `ephemeral` and `prefix_snippets` of the request. Errors: `invalid_header`, naming
// the header, its value and what it may be.
ApiResult<void> read_cache_headers(const Headers& headers, std::string_view app_id,
                                   prompt::GenerateRequest& request);

// The value of the response header x-gezel-prefix-break: "matched=812, previous=1400, at_message=0".
std::string prefix_break_header(const engine::PrefixBreak& found);

}  // namespace gezel::api
