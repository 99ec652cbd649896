// downloads/cancellation.h
//
// How one thread tells another to stop, and how that other waits without missing it.
#pragma once
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace gezel::downloads {

class Cancellation {
 public:
  void cancel() {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    changed_.notify_all();
  }
  bool cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }
  // Waits for `delay`; false, and at once, when it is cancelled.
  bool wait(Millis delay) const {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, delay, [this] { return cancelled_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool cancelled_ = false;
};

// Waiting between attempts, injected so that tests do not.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual bool wait(Millis delay, const Cancellation& cancellation) = 0;  // false: cancelled
};

class RealWaiter final : public Waiter {
 public:
  bool wait(Millis delay, const Cancellation& cancellation) override { return cancellation.wait(delay); }
};

}  // namespace gezel::downloads
