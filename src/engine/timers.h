// engine/timers.h
//
// Deadlines as an injected service, so that policies that wait (heartbeats, idle budgets, watchdogs) are
// tested by moving a clock by hand. Everything happens on the event loop.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>

#include "base/clock.h"

namespace gezel::engine {

namespace asio = boost::asio;

// One deadline. Arming it again replaces the deadline; a destroyed or cancelled timer never calls.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual void arm(MonotonicTime deadline, std::function<void()> callback) = 0;
  virtual void cancel() = 0;
};

class Timers {
 public:
  virtual ~Timers() = default;
  virtual std::unique_ptr<Timer> make() = 0;
};

// Timers of the machine's monotonic clock.
class LoopTimers final : public Timers {
 public:
  explicit LoopTimers(asio::any_io_executor loop) : loop_(std::move(loop)) {}
  std::unique_ptr<Timer> make() override;

 private:
  asio::any_io_executor loop_;
};

// Timers of a clock that is moved by hand.
class ManualTimers final : public Timers {
 public:
  explicit ManualTimers(ManualClock& clock) : clock_(clock) {}
  std::unique_ptr<Timer> make() override;
  // Moves the clock from deadline to deadline, calling each timer at its time; `settle` runs after every
  // call, for work that the callback left to the event loop.
  void advance(Millis by, const std::function<void()>& settle = {});

 private:
  class Manual;
  struct Entry {
    MonotonicTime deadline;
    std::function<void()> callback;
  };
  ManualClock& clock_;
  // Shared with the timers, which may outlive this object.
  std::shared_ptr<std::map<Manual*, Entry>> armed_ = std::make_shared<std::map<Manual*, Entry>>();
};

}  // namespace gezel::engine
