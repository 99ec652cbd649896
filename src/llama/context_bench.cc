// What one call costs with a real model: read against llama-bench, which has no layer in between.
#include <benchmark/benchmark.h>

#include "llama/llama.h"

#include <cstdlib>

namespace gezel::llama {
namespace {

std::string smollm_path() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  const std::string root =
      base != nullptr && *base != '\0' ? base : std::string(std::getenv("HOME")) + "/.cache";
  return root + "/gezel-inference/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

const Model& smollm() {
  static const auto model = Model::load({.path = smollm_path()});
  if (!model) std::abort();
  return **model;
}

// One token in each of `slots` slots at a depth of about 64.
void BM_DecodeStep(benchmark::State& state) {
  const int slots = static_cast<int>(state.range(0));
  auto context = Context::create(smollm(), {.slots = slots, .context_per_slot = 256, .threads = 2});
  if (!context) std::abort();
  std::vector<Row> rows;
  for (int slot = 0; slot < slots; ++slot)
    rows.push_back({.token = 28, .position = 0, .slot = slot, .logits = true});
  for (auto _ : state) {
    if ((*context)->decode(rows) != DecodeCode::ok) std::abort();
    benchmark::DoNotOptimize((*context)->logits(0).data());
    for (auto& row : rows) ++row.position;
    if (rows[0].position < 128) continue;
    for (auto& row : rows) {
      (*context)->remove(row.slot, 0, -1);
      row.position = 0;
    }
  }
  state.SetItemsProcessed(state.iterations() * slots);
}
BENCHMARK(BM_DecodeStep)->Arg(1)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_Prefill(benchmark::State& state) {
  auto context = Context::create(smollm(), {.slots = 1, .context_per_slot = 512, .threads = 2});
  if (!context) std::abort();
  std::vector<Row> rows;
  for (int i = 0; i < state.range(0); ++i) rows.push_back({.token = 28 + i, .position = i, .slot = 0});
  rows.back().logits = true;
  for (auto _ : state) {
    if ((*context)->decode(rows) != DecodeCode::ok) std::abort();
    benchmark::DoNotOptimize((*context)->logits(static_cast<int>(rows.size()) - 1).data());
    (*context)->remove(0, 0, -1);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Prefill)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_Tokenize(benchmark::State& state) {
  std::string text;
  while (text.size() < 32 * kKiB) text += "The quick brown fox jumps over the lazy dog, twice in 1969. ";
  for (auto _ : state) benchmark::DoNotOptimize(smollm().vocab().tokenize(text, true, true));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(BM_Tokenize)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gezel::llama
