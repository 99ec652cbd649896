// engine/idle_policy.h
//
// When is a loaded model frozen and when is it unloaded (spec 30 section 3.6)? Frozen at half of the idle
// budget: caches are persisted, the model stays; stopped at the whole budget. Pure; the caller arms one timer
// at next_deadline().
#pragma once
#include <optional>

#include "base/clock.h"

namespace gezel::engine {

class IdlePolicy {
 public:
  static constexpr Millis kSlack{50};  // a timer that fires a hair early must not look like "not idle yet"
  enum class Action { none, freeze, stop };

  // `budget` 0: never idle.
  explicit IdlePolicy(Millis budget) : budget_(budget) {}

  // From the last use on, as if it had always been this one.
  void set_budget(Millis budget);
  // A request began, ended, or (at most once a minute) still streams.
  void mark_used(MonotonicTime now, WallTime wall);
  // What to do at a deadline. `busy`: a request holds the physical gate. Each answer moves next_deadline().
  Action on_deadline(MonotonicTime now, WallTime wall, bool busy);

  std::optional<MonotonicTime> next_deadline() const;
  // Idle time so far: the longer of both clocks, so that a machine's sleep counts and a clock set back does
  // not.
  Millis idle_for(MonotonicTime now, WallTime wall) const;
  std::optional<WallTime> unload_at() const;

 private:
  Millis budget_;
  std::optional<MonotonicTime> used_at_;
  WallTime used_wall_{};
  bool freeze_pending_ = false;
  MonotonicTime stop_at_{};
};

}  // namespace gezel::engine
