// worker/intake_guard.h
//
// Preparing a request comes to an end, or the worker does. A chat template is a program that came with the
// model file. The bridge bounds it by fuel, output and time wherever it can look, and then one request fails.
// But some single operations of the template engine cannot be stopped: comparing or joining values that hold
// each other twice over and over, or dropping a list nested a million deep. What takes too long, too much memory
// or too much stack there ends the process, which costs the requests of this one model, and it ends as a verdict
// about the model instead of as a crash. The same goes for tokenizing, and for compiling what a request asks its
// answer to be like.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/process.h"
#include "protocol/messages.h"

namespace gezel::worker {

class IntakeGuard {
 public:
  // One rendering; the bridge ends at 20 s what it can end.
  static constexpr Millis kRenderLimit{30'000};
  // One prompt. The size of what is tokenized is bounded before; the slowest tokenizers do a MiB in seconds.
  static constexpr Millis kTokenizeLimit{180'000};
  // One schema, grammar or set of tools; the compiler has limits of its own.
  static constexpr Millis kConstrainLimit{60'000};

  enum class Work { rendering, tokenizing, constraining };
  enum class Cause { time, memory, stack };

  explicit IntakeGuard(const Clock& clock);

  // The intake works on this request from now on, or on the template of a model that is being loaded; it begins
  // with rendering. leave(): it is done.
  void enter(std::optional<std::uint64_t> request);
  void leave();
  // The next piece of work begins, with all of its time before it.
  void begin(Work work);

  // The work under way must end the process. From any thread; may be called in a signal handler.
  void overrun(Cause cause);
  // Waits for an overrun, `wait` at most, and looks at the clock: nothing while all is well, else what the daemon
  // must be told before the process ends. Without `id` it is about the load.
  std::optional<protocol::Failed> look(Millis wait);

 private:
  struct Current {
    std::optional<std::uint64_t> request;
    Work work = Work::rendering;
    MonotonicTime since{};
  };
  std::optional<Current> current() const;

  const Clock& clock_;
  Fd overrun_read_, overrun_write_;  // a byte per overrun: all that a signal handler can send
  mutable std::mutex mutex_;
  std::optional<Current> current_;
};

}  // namespace gezel::worker
