// http/cleanup.h
//
// What has to be undone, in reverse order of how it was done: at a graceful stop and when starting fails
// half-way (spec 10 section 18).
#pragma once
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <vector>

namespace gezel::http {

namespace asio = boost::asio;

class Cleanup {
 public:
  using Step = std::function<asio::awaitable<void>()>;
  void push(std::string name, Step step) { steps_.push_back({std::move(name), std::move(step)}); }

  // Runs every step, last first, each even if others failed. Returns what failed, "name: reason" each.
  // Idempotent.
  asio::awaitable<std::vector<std::string>> unwind();

 private:
  struct Named {
    std::string name;
    Step step;
  };
  std::vector<Named> steps_;
};

}  // namespace gezel::http
