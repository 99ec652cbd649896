// What watching a stream costs for each unit; the detector compares every unit with every period.
#include <benchmark/benchmark.h>

#include "turn/guards.h"

namespace gezel::turn {
namespace {

std::string table_text() {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "| row " + std::to_string(i) + " | yes | no | done |\n";
  return text;
}

void CycleTokens(benchmark::State& state) {
  CycleDetector detector;
  std::uint32_t unit = 1;
  for (auto _ : state) {
    unit = unit * 1664525 + 1013904223;
    benchmark::DoNotOptimize(detector.feed(unit >> 20, 4));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(CycleTokens);

void CycleText(benchmark::State& state) {
  const std::string text = table_text();
  for (auto _ : state) {
    CycleDetector detector(kCyclePeriodChars);
    benchmark::DoNotOptimize(detector.feed_text(text));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}
BENCHMARK(CycleText);

void Trigrams(benchmark::State& state) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "word" + std::to_string(i * 7919 % 1013) + " ";
  for (auto _ : state) {
    TrigramGuard guard;
    benchmark::DoNotOptimize(guard.feed(text));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}
BENCHMARK(Trigrams);

}  // namespace
}  // namespace gezel::turn
