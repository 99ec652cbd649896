// api/exchange.h
//
// One HTTP exchange without its socket: what a handler reads and what it writes to. A socket connection and the
// in-process transport are the two implementations of Response.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gezel::api {

namespace asio = boost::asio;

// Header names are lower case.
using Headers = std::vector<std::pair<std::string, std::string>>;
std::optional<std::string_view> find_header(const Headers& headers, std::string_view lower_case_name);

struct Request {
  std::string method;  // "GET"
  std::string target;  // path and query as sent
  Headers headers;
  std::string body;    // complete, within the route's limit
  bool in_process = false;
};

class Response {
 public:
  virtual ~Response() = default;
  // A complete answer. False: the client is gone.
  virtual asio::awaitable<bool> send(int status, Headers headers, std::string body) = 0;
  // A streamed answer: head, then chunks, then end. write() returns when the chunk left for the socket, so a slow client
  // slows its own stream only. False: the client is gone, stop.
  virtual asio::awaitable<bool> start_stream(int status, Headers headers) = 0;
  virtual asio::awaitable<bool> write(std::string chunk) = 0;
  virtual asio::awaitable<void> end_stream() = 0;
  virtual bool started() const = 0;
  // Calls `on_gone` once if the client disappears before the answer is complete (for sockets: the peer closed or reset).
  virtual void on_disconnect(std::function<void()> on_gone) = 0;
};

}  // namespace gezel::api
