// calibration/bench.h
//
// One measurement of a calibration (spec 35 section 2.3): some equal calls of the engine in a context with
// the settings that are tried, at a depth that was made. The fastest counts. Ends at once when it is told
// that a request came. On the decode thread.
#pragma once
#include <atomic>
#include <functional>

#include "base/clock.h"
#include "llama/llama.h"
#include "protocol/messages.h"

namespace gezel::calibration {

// The context that is measured in. BenchContext is the real one.
class BenchEngine {
 public:
  virtual ~BenchEngine() = default;
  // Makes the context that `measure` describes, in the place of the one before.
  virtual Result<> open(const protocol::Measure& measure) = 0;
  virtual void close() = 0;
  virtual Bytes memory() const = 0;
  // The first `streams` slots hold `depth` tokens. Error `cancelled`: interrupted.
  virtual Result<> set_depth(int streams, std::int64_t depth) = 0;
  // One call with the tokens of `measure`; they stay until the next set_depth().
  virtual llama::DecodeCode call(const protocol::Measure& measure) = 0;
};

// A measurement ends after so many calls, or when two were made and they took this long together.
inline constexpr int kMostCalls = 12;
inline constexpr double kEnoughMs = 80;
// After preparations that took longer, the measurement itself is left to the next question.
inline constexpr double kPrepareMs = 60;

class Bench {
 public:
  // `thread_ms`: CPU time of the calling thread (system::thread_cpu_ms). `interrupted` is set by another
  // thread when a request came. All outlive this.
  Bench(BenchEngine& engine, const Clock& clock, std::function<double()> thread_ms,
        const std::atomic<bool>& interrupted)
      : engine_(engine), clock_(clock), thread_ms_(std::move(thread_ms)), interrupted_(interrupted) {}

  protocol::Measured run(const protocol::Measure& measure);

 private:
  protocol::Measured measure_calls(const protocol::Measure& measure, MonotonicTime began);
  double since(MonotonicTime began) const;

  BenchEngine& engine_;
  const Clock& clock_;
  const std::function<double()> thread_ms_;
  const std::atomic<bool>& interrupted_;
  std::optional<protocol::Measure> open_;  // what the context was made for
};

}  // namespace gezel::calibration
