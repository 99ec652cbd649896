// http/in_process.h
//
// The in-process transport (spec 10 section 16): the same requests through the same router, without a socket
// or a token.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>

#include "http/open_requests.h"
#include "http/router.h"

namespace gezel::http {

class InProcessExchange;

// An answer. Destroying it before its body was read to the end cancels the request.
class InProcessReply {
 public:
  explicit InProcessReply(std::shared_ptr<InProcessExchange> exchange);
  ~InProcessReply();
  InProcessReply(const InProcessReply&) = delete;
  InProcessReply& operator=(const InProcessReply&) = delete;

  int status() const;
  const api::Headers& headers() const;
  // The next piece of the body, nothing at its end.
  asio::awaitable<std::optional<std::string>> read();
  asio::awaitable<std::string> read_all();
  // False when the body ended because the request was cancelled.
  bool complete() const;
  void cancel();

 private:
  std::shared_ptr<InProcessExchange> exchange_;
};

class InProcessTransport {
 public:
  InProcessTransport(asio::any_io_executor loop, Router& router, OpenRequests& open)
      : loop_(std::move(loop)), router_(router), open_(open) {}

  // Completes when status and headers are known; after that the handler waits for its body to be read, piece
  // by piece. Aborted before that: status 503, `shutting_down`.
  asio::awaitable<std::unique_ptr<InProcessReply>> call(api::Request request);

 private:
  asio::any_io_executor loop_;
  Router& router_;
  OpenRequests& open_;
};

}  // namespace gezel::http
