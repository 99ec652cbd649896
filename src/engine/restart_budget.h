// engine/restart_budget.h
//
// How often may a process that keeps dying be started again (spec 30 section 3.1.5)? Three failed launches
// within a minute, then a minute's rest. Pure; the caller brings the time.
#pragma once
#include <deque>
#include <optional>

#include "base/clock.h"

namespace gezel::engine {

class RestartBudget {
 public:
  static constexpr std::size_t kFailures = 3;
  static constexpr Millis kWindow{60'000};

  // An unexpected end of a launch. Honest stops and refused loads are not failures.
  void record_failure(MonotonicTime now);
  // Asks for one launch: nothing when it may go ahead, else the time until the next one. The first refusal
  // starts the rest, after which all failures are forgotten.
  std::optional<Millis> refuse(MonotonicTime now);
  bool exhausted(MonotonicTime now) const;

 private:
  std::deque<MonotonicTime> failures_;
  std::optional<MonotonicTime> exhausted_since_;
};

}  // namespace gezel::engine
