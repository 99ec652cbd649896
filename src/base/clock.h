// base/clock.h
//
// Time is injected, so that policies can be tested without waiting.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace gezel {

using Millis = std::chrono::milliseconds;
using MonotonicTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime now() const = 0;  // never jumps
  virtual WallTime wall_now() const = 0;  // what a calendar shows
};

// The machine's clocks.
class SystemClock final : public Clock {
 public:
  MonotonicTime now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }
};

// A clock that stands still until told otherwise.
class ManualClock final : public Clock {
 public:
  MonotonicTime now() const override { return now_; }
  WallTime wall_now() const override { return wall_; }
  void advance(Millis by) {
    now_ += by;
    wall_ += by;
  }
  void set_wall(WallTime wall) { wall_ = wall; }

 private:
  MonotonicTime now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::seconds(1'700'000'000)};
};

// "2026-11-29T23:03:29.123Z".
std::string iso_time(WallTime time);
std::int64_t unix_seconds(WallTime time);
std::int64_t unix_millis(WallTime time);

}  // namespace gezel
