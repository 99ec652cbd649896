// http/router.h
//
// From a request to its answer, without a socket: the pipeline of spec 10 section 2. Each stage may end the
// request, and they run in this order: request id and security headers, host guard, CORS, stopping,
// credentials, route, scope, body limit, handler. What the head alone decides is decided before a byte of the
// body is read.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "api/error.h"
#include "api/exchange.h"
#include "http/services.h"

namespace gezel::http {

struct Route;

// A complete answer.
struct Reply {
  int status = 200;
  api::Headers headers;
  std::string body;
};

// What the head of a request led to.
struct Admission {
  std::optional<Reply> refusal;  // the answer already; else `route` is set
  const Route* route = nullptr;
  std::uint64_t body_limit = 0;
  service::Credential caller;
  api::Headers common_headers;  // on every answer to this request
  std::string request_id;
  std::string path_tail;  // decoded text after a prefix route
};

class Router {
 public:
  explicit Router(Services services) : services_(std::move(services)) {}

  // Decides from method, target and headers; `head.body` is not looked at.
  Admission admit(const api::Request& head);
  // Runs the admitted request. Exceptions end here: the client gets an opaque 500, the log the text under the
  // request id.
  asio::awaitable<void> run(Admission admission, api::Request request, api::Response& response);
  // Both, for callers that have the whole request.
  asio::awaitable<void> handle(api::Request request, api::Response& response);

  // From now on everything but /health is refused with `shutting_down`.
  void begin_stop() { stopping_ = true; }
  bool stopping() const { return stopping_; }

  // An error that the connection itself found, with the headers that belong on everything.
  Reply connection_error(const api::ApiError& error);

 private:
  api::Headers security_headers(const std::string& request_id) const;
  std::optional<service::Credential> authenticate(const api::Request& head);

  Services services_;
  bool stopping_ = false;
};

}  // namespace gezel::http
