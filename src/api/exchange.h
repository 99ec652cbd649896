// api/exchange.h
//
// One HTTP exchange without its socket: what a handler reads and what it writes to. A socket connection and
// the in-process transport are the two implementations of Response.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gezel::api {

namespace asio = boost::asio;

// A large body, of a request whose route takes it in pieces.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // What came next, "" = that was all. Errors: `request_too_large`, `request_timeout`, `invalid_request`,
  // `upload_broken` when the client is gone.
  virtual asio::awaitable<Result<std::string>> next() = 0;
};

// Header names are lower case.
using Headers = std::vector<std::pair<std::string, std::string>>;
// The first value of that name.
std::optional<std::string_view> find_header(const Headers& headers, std::string_view lower_case_name);

struct Request {
  std::string method;  // "GET"
  std::string target;  // path and query as sent
  Headers headers;
  std::string body;  // complete, within the route's limit
  bool in_process = false;
  // Of a route that takes its body in pieces and whose caller sends it so: `body` is empty then.
  BodyReader* pieces = nullptr;
};

// Why an exchange ends before its answer is complete.
enum class CancelReason {
  client_gone,  // nobody reads any more: write nothing
  stopping,     // the service stops: end the answer with an error now
};

class Response {
 public:
  virtual ~Response() = default;
  // A complete answer. False: the client is gone.
  virtual asio::awaitable<bool> send(int status, Headers headers, std::string body) = 0;
  // A streamed answer: head, then chunks, then end. write() returns when the chunk left for the socket, so a
  // slow client slows its own stream only. False: the client is gone, stop.
  virtual asio::awaitable<bool> start_stream(int status, Headers headers) = 0;
  virtual asio::awaitable<bool> write(std::string chunk) = 0;
  virtual asio::awaitable<void> end_stream() = 0;
  virtual bool started() const = 0;
  // Calls `on_cancel` at most once, when the client disappears (for sockets: the connection broke; a client
  // that only stopped sending is still there) or the service stops before the answer is complete. At once
  // when that already happened. An empty function withdraws it.
  virtual void on_cancel(std::function<void(CancelReason)> on_cancel) = 0;
};

inline constexpr std::size_t kMaxSessionName = 512;  // bytes, without white space around it
// The key of a session as an application calls it; "" where that is no name.
std::string session_key(std::string_view app_id, std::string_view name);

// The key under which a caller's conversation finds its KV cache again (spec 10 section 17): the headers
// x-gezel-session, x-gezel-external-conversation-id, then `prompt_cache_key`, then the headers session_id and
// x-session-id; what is longer than 512 characters is ignored. Keys of different applications never meet. ""
// = none.
std::string affinity_key(const Headers& headers, std::string_view prompt_cache_key, std::string_view app_id);

}  // namespace gezel::api
