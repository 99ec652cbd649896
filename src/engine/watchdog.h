// engine/watchdog.h
//
// Silence, not duration, is the sign of a hung turn (spec 30 section 12.8): one budget before the first text,
// one between pieces of text, and a very long one for the whole turn. Starts when the engine gives the
// request a slot. Pure.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace gezel::engine {

struct WatchdogLimits {
  Millis before_text{600'000};
  Millis between_text{300'000};
  Millis turn{28'800'000};
  // With requests in the worker's intake and none of them leaving it. The worker's own guard ends sooner.
  Millis intake{600'000};
};

class TurnWatchdog {
 public:
  enum class Verdict { fine, before_text, between_text, turn };

  explicit TurnWatchdog(WatchdogLimits limits = {}) : limits_(limits) {}

  // `steps` is the engine's count of decode steps so far.
  void start(MonotonicTime now, std::uint64_t steps) {
    if (started_) return;
    started_ = alive_ = now;
    steps_ = steps;
  }
  // Prefill moved or tokens arrived (text may still be held back).
  void alive(MonotonicTime now, std::uint64_t steps) {
    alive_ = now;
    steps_ = steps;
  }
  void text() { text_ = true; }
  // A paused turn is silent by our own wish.
  void pause() { paused_ = true; }
  void resume(MonotonicTime now) {
    paused_ = false;
    alive_ = now;
  }

  std::optional<MonotonicTime> deadline() const {
    if (!started_) return std::nullopt;
    const auto total = *started_ + limits_.turn;
    return paused_ ? total : std::min(total, alive_ + silence());
  }
  // An engine that still decodes for others is slow, not hung: the budget starts again.
  Verdict check(MonotonicTime now, std::uint64_t steps) {
    if (!started_) return Verdict::fine;
    if (now >= *started_ + limits_.turn) return Verdict::turn;
    if (paused_ || now < alive_ + silence()) return Verdict::fine;
    if (steps != steps_) {
      alive(now, steps);
      return Verdict::fine;
    }
    return text_ ? Verdict::between_text : Verdict::before_text;
  }
  Millis silence() const { return text_ ? limits_.between_text : limits_.before_text; }
  bool started() const { return started_.has_value(); }

 private:
  WatchdogLimits limits_;
  std::optional<MonotonicTime> started_;
  MonotonicTime alive_{};
  std::uint64_t steps_ = 0;
  bool text_ = false;
  bool paused_ = false;
};

}  // namespace gezel::engine
