// worker/guarded_thread.h
//
// A thread that notices when it runs off its stack. For code of others that recurses as deep as its data is
// nested, where the data is a stranger's.
#pragma once
#include <pthread.h>

#include <cstddef>
#include <functional>

#include "base/bytes.h"

namespace gezel::worker {

// From now on `on_overflow` is called when a GuardedThread has used up its stack. That happens in a signal
// handler, on a stack of its own: it may do only what signal handlers may, and must not return. Any other bad
// access ends the process as it always did. For the whole process; the last call counts.
void on_stack_overflow(void (*on_overflow)());

class GuardedThread {
 public:
  static constexpr std::size_t kStackBytes = 16 * kMiB;

  // Runs `work`, which must not throw. Throws std::system_error when the system has no thread left.
  explicit GuardedThread(std::function<void()> work);
  // Waits for its end.
  ~GuardedThread();
  GuardedThread(const GuardedThread&) = delete;
  GuardedThread& operator=(const GuardedThread&) = delete;

 private:
  void run();

  std::function<void()> work_;
  std::byte* memory_ = nullptr;  // guard, stack, stack of the signal handler
  pthread_t thread_{};
};

}  // namespace gezel::worker
