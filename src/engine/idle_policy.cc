#include "engine/idle_policy.h"

#include <algorithm>

namespace gezel::engine {

void IdlePolicy::mark_used(MonotonicTime now, WallTime wall) {
  used_at_ = now;
  used_wall_ = wall;
  freeze_pending_ = true;
  stop_at_ = now + budget_ + kSlack;
}

void IdlePolicy::set_budget(Millis budget) {
  budget_ = budget;
  if (used_at_) stop_at_ = *used_at_ + budget_ + kSlack;
}

IdlePolicy::Action IdlePolicy::on_deadline(MonotonicTime now, WallTime wall, bool busy) {
  if (budget_ <= Millis(0) || !used_at_) return Action::none;
  const Millis idle = idle_for(now, wall);
  if (now >= stop_at_ || idle >= budget_ + kSlack) {
    if (busy) {
      stop_at_ = now + budget_;
      freeze_pending_ = false;  // a second freeze needs a new use
      return Action::none;
    }
    if (idle < budget_) {
      stop_at_ = now + (budget_ - idle) + kSlack;
      return Action::none;
    }
    used_at_.reset();
    return Action::stop;
  }
  if (freeze_pending_ && idle >= budget_ / 2) {
    freeze_pending_ = false;
    return busy ? Action::none : Action::freeze;
  }
  return Action::none;
}

std::optional<MonotonicTime> IdlePolicy::next_deadline() const {
  if (budget_ <= Millis(0) || !used_at_) return std::nullopt;
  return freeze_pending_ ? std::min(*used_at_ + budget_ / 2 + kSlack, stop_at_) : stop_at_;
}

Millis IdlePolicy::idle_for(MonotonicTime now, WallTime wall) const {
  if (!used_at_) return Millis(0);
  return std::max({Millis(0), std::chrono::duration_cast<Millis>(now - *used_at_),
                   std::chrono::duration_cast<Millis>(wall - used_wall_)});
}

std::optional<WallTime> IdlePolicy::unload_at() const {
  if (budget_ <= Millis(0) || !used_at_) return std::nullopt;
  return used_wall_ + budget_;
}

}  // namespace gezel::engine
