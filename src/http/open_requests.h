// http/open_requests.h
//
// The requests that are being answered right now (spec 10 section 16), so that a stopping service can end
// every one of them, including those whose answer nobody reads. One set for sockets, one for the in-process
// transport.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

namespace gezel::http {

namespace asio = boost::asio;

class OpenRequests {
 public:
  using Id = std::uint64_t;

  // While the set is not empty it holds one reference on `loop`, so that an event loop that would otherwise
  // run out of work keeps going until the answer is there.
  explicit OpenRequests(asio::any_io_executor loop) : loop_(std::move(loop)) {}

  Id add(std::function<void()> cancel);
  void remove(Id id);  // unknown or already removed: nothing happens
  // Forgets all of them, then cancels each. A cancel handle that throws does not keep the others from
  // running.
  void abort_all();
  std::size_t size() const { return open_.size(); }
  bool holds_liveness() const { return liveness_.has_value(); }

 private:
  asio::any_io_executor loop_;
  std::optional<asio::executor_work_guard<asio::any_io_executor>> liveness_;
  std::map<Id, std::function<void()>> open_;
  Id last_ = 0;
};

}  // namespace gezel::http
