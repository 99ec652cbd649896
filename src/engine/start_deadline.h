// engine/start_deadline.h
//
// How long may a start take (spec 30 section 3.4.4)? A base budget, extended while loading visibly moves on,
// never beyond three times the base. Pure.
#pragma once
#include <algorithm>
#include <optional>
#include <string>

#include "base/clock.h"

namespace gezel::engine {

class StartDeadline {
 public:
  static constexpr Millis kProgressGrace{60'000};

  StartDeadline(MonotonicTime start, Millis base) : start_(start), base_(base) {}

  // One observation of loading. It counts when it is new: another phase than the last, or a larger value in
  // the same one.
  void observe(const std::string& phase, double value, MonotonicTime now) {
    if (phase == phase_ && value <= value_) return;
    phase_ = phase;
    value_ = value;
    progress_ = now;
  }
  MonotonicTime deadline() const {
    auto extended = start_ + base_;
    if (progress_) extended = std::max(extended, *progress_ + kProgressGrace);
    return std::min(start_ + 3 * base_, extended);
  }
  const std::string& phase() const { return phase_; }
  double value() const { return value_; }

 private:
  MonotonicTime start_;
  Millis base_;
  std::string phase_;
  double value_ = 0;
  std::optional<MonotonicTime> progress_;
};

}  // namespace gezel::engine
