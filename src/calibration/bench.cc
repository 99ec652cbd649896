#include "calibration/bench.h"

#include <algorithm>
#include <utility>

namespace gezel::calibration {
namespace {

bool same_context(const protocol::Measure& a, const protocol::Measure& b) {
  return a.flash_attention == b.flash_attention && a.kv_type == b.kv_type && a.threads == b.threads &&
         a.streams == b.streams && a.context == b.context;
}

}  // namespace

double Bench::since(MonotonicTime began) const {
  return std::chrono::duration<double, std::milli>(clock_.now() - began).count();
}

protocol::Measured Bench::run(const protocol::Measure& measure) {
  const MonotonicTime began = clock_.now();
  protocol::Measured out = measure_calls(measure, began);
  out.id = measure.id;
  out.spent_ms = since(began);
  if (out.outcome == "refused") {
    engine_.close();
    open_.reset();
  } else if (open_) {
    out.memory_bytes = engine_.memory();
  }
  return out;
}

protocol::Measured Bench::measure_calls(const protocol::Measure& measure, MonotonicTime began) {
  protocol::Measured out;
  const auto end = [&out](const char* outcome, std::string reason = {}) {
    out.outcome = outcome;
    out.reason = std::move(reason);
    return out;
  };
  if (measure.release) {
    engine_.close();
    open_.reset();
    return end("released");
  }
  if (interrupted_.load()) return end("interrupted");
  if (!open_ || !same_context(*open_, measure)) {
    engine_.close();
    open_.reset();
    if (auto opened = engine_.open(measure); !opened) return end("refused", opened.error().message);
    open_ = measure;
  }
  const int streams = measure.kind == "decode" ? static_cast<int>(measure.tokens) : 1;
  if (streams > measure.streams) return end("refused", "more streams than the context has");
  double total = 0;
  for (int calls = 0; calls < kMostCalls && (calls < 2 || total < kEnoughMs); ++calls) {
    if (auto made = engine_.set_depth(streams, measure.depth); !made)
      return made.error().code == "cancelled" ? end("interrupted") : end("refused", made.error().message);
    if (interrupted_.load()) return end("interrupted");
    if (calls == 0 && since(began) > kPrepareMs) return end("prepared");
    const double ran_before = thread_ms_();
    const MonotonicTime call_began = clock_.now();
    const llama::DecodeCode code = engine_.call(measure);
    const double ms = since(call_began), ran = thread_ms_() - ran_before;
    if (code == llama::DecodeCode::aborted || interrupted_.load()) return end("interrupted");
    if (code != llama::DecodeCode::ok) return end("refused", "the engine cannot compute with these settings");
    total += ms;
    if (out.ms == 0 || ms < out.ms) {
      out.next_ms = out.ms;
      out.ms = ms;
      out.cpu_ms = ran;
    } else if (out.next_ms == 0 || ms < out.next_ms) {
      out.next_ms = ms;
    }
    if (ms > kEnoughMs && calls == 0) break;  // a second one would double a long slice
  }
  return end("measured");
}

}  // namespace gezel::calibration
