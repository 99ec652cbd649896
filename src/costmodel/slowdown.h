// costmodel/slowdown.h
//
// Whether a model computes much slower than it was once measured to: a hot processor, other load (spec 35
// section 3). Reported once, never acted on. Pure.
#pragma once
#include <optional>

#include "base/clock.h"

namespace gezel::costmodel {

inline constexpr double kSlowdown = 0.6;           // of the measured speed
inline constexpr Millis kSlowdownTime{60'000};     // for so long
inline constexpr Millis kSlowdownSilence{30'000};  // without figures the time begins anew

class SlowdownWatch {
 public:
  // Speeds in the same unit. True: say it now. Speeds of the usual kind end the matter, and it may be said
  // again.
  bool observe(double now_speed, double measured_speed, MonotonicTime now) {
    if (!(now_speed > 0) || !(measured_speed > 0)) return false;
    const bool gap = last_ && now - *last_ > kSlowdownSilence;
    last_ = now;
    if (now_speed >= measured_speed * kSlowdown) {
      since_.reset();
      said_ = false;
      return false;
    }
    if (!since_ || gap) since_ = now;
    if (said_ || now - *since_ < kSlowdownTime) return false;
    said_ = true;
    return true;
  }

 private:
  std::optional<MonotonicTime> since_, last_;
  bool said_ = false;
};

}  // namespace gezel::costmodel
