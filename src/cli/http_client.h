// cli/http_client.h
//
// HTTP/1.1 to a daemon on this machine: one request per connection, blocking, stopped at once by Ctrl-C.
// Small on purpose; downloads and anything remote are not its business.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "cli/console.h"

namespace gezel::cli {

// A reply that is kept whole may not be larger.
inline constexpr Bytes kMaxReply = 64 * kMiB;

struct HttpRequest {
  std::string method = "GET";
  std::string target;      // path and query
  std::string body;        // JSON; sent when not empty
  Millis silence{30'000};  // longest time without a byte from the daemon; 0 = for ever
};

struct HttpReply {
  int status = 0;
  std::string content_type;
  std::string body;  // empty when it was streamed
};

struct StreamHooks {
  // Bytes of the body as they arrive, when the reply is a stream of events. False ends the request: the
  // connection is closed, by which the daemon cancels what it was doing.
  std::function<bool(std::string_view)> on_piece;
  // Called some twenty times a second while nothing arrives, with the time since the last byte.
  std::function<void(Millis)> on_wait;
};

class HttpClient {
 public:
  HttpClient(std::uint16_t port, std::string token);

  // Errors: `daemon_unreachable`, `daemon_timeout`, `connection_lost`, `bad_reply`, `interrupted`. A status
  // of 4xx or 5xx is a reply, not an error.
  Result<HttpReply> send(const HttpRequest& request, const StreamHooks& hooks = {}) const;

 private:
  std::uint16_t port_;
  std::string token_;
};

}  // namespace gezel::cli
