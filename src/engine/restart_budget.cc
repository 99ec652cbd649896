#include "engine/restart_budget.h"

namespace gezel::engine {

void RestartBudget::record_failure(MonotonicTime now) {
  failures_.push_back(now);
  while (failures_.size() > kFailures) failures_.pop_front();
}

std::optional<Millis> RestartBudget::refuse(MonotonicTime now) {
  if (exhausted_since_) {
    if (exhausted(now)) return std::chrono::ceil<Millis>(*exhausted_since_ + kWindow - now);
    exhausted_since_.reset();
    failures_.clear();
  }
  while (!failures_.empty() && now - failures_.front() >= kWindow) failures_.pop_front();
  if (failures_.size() < kFailures) return std::nullopt;
  exhausted_since_ = now;
  return kWindow;
}

bool RestartBudget::exhausted(MonotonicTime now) const {
  return exhausted_since_ && now - *exhausted_since_ < kWindow;
}

}  // namespace gezel::engine
