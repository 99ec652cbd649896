#include "http/open_requests.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace gezel::http {

OpenRequests::Id OpenRequests::add(std::function<void()> cancel) {
  if (open_.empty()) liveness_.emplace(loop_);
  open_.emplace(++last_, std::move(cancel));
  return last_;
}

void OpenRequests::remove(Id id) {
  if (open_.erase(id) > 0 && open_.empty()) liveness_.reset();
}

void OpenRequests::abort_all() {
  const auto open = std::exchange(open_, {});
  liveness_.reset();
  for (const auto& [id, cancel] : open) {
    try {
      cancel();
    } catch (const std::exception& error) {
      log_error("cancelling a request failed", {{"error", error.what()}});
    }
  }
}

}  // namespace gezel::http
