#include "http/cleanup.h"

#include <fmt/format.h>

#include <exception>

namespace gezel::http {

asio::awaitable<std::vector<std::string>> Cleanup::unwind() {
  std::vector<std::string> failures;
  while (!steps_.empty()) {
    const Named last = std::move(steps_.back());
    steps_.pop_back();
    try {
      co_await last.step();
    } catch (const std::exception& error) {
      failures.push_back(fmt::format("{}: {}", last.name, error.what()));
    }
  }
  co_return failures;
}

}  // namespace gezel::http
