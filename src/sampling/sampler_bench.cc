// One token of 49,152 (SmolLM2) and of 262,144 (Gemma 3). The row's spread is that of a real model: a few
// likely tokens far above a broad rest.
#include <benchmark/benchmark.h>

#include <random>

#include "sampling/sampler.h"

namespace {

using namespace gezel::sampling;

std::vector<float> make_logits(std::size_t size) {
  std::mt19937 random(1);
  std::normal_distribution<float> broad(0, 2.5f);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = broad(random);
  for (int i = 0; i < 30; ++i) logits[random() % size] = 12.0f + static_cast<float>(random() % 800) / 100;
  return logits;
}

void run(benchmark::State& state, const SamplingParams& params, int top_logprobs = -1, bool masked = false) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::vector<float> logits = make_logits(size);
  const auto vocab = std::make_shared<VocabView>(
      VocabView{static_cast<int>(size), {2}, [](Token token) { return token % 20 == 0 ? "\n" : "word"; }});
  std::vector<std::uint32_t> allowed;
  if (masked) allowed.assign((size + 31) / 32, 0xffff00ffu);
  Sampler sampler(params, vocab);
  std::mt19937 random(2);
  for (int i = 0; i < 4000; ++i) sampler.accept(static_cast<Token>(random() % 400));
  for (auto _ : state) {
    const Sampled sampled = sampler.sample(logits, allowed, top_logprobs);
    benchmark::DoNotOptimize(sampled.token);
    sampler.accept(sampled.token);
  }
}

const SamplingParams kOff{.top_k = 0, .top_p = 1, .min_p = 0};
SamplingParams with(SamplingParams params, auto&& change) {
  change(params);
  return params;
}

void defaults(benchmark::State& state) {
  run(state, {});
}
void greedy(benchmark::State& state) {
  run(state, {.temperature = 0});
}
void full_vocabulary(benchmark::State& state) {
  run(state, kOff);
}
void only_top_p(benchmark::State& state) {
  run(state, with(kOff, [](auto& p) { p.top_p = 0.95f; }));
}
void only_min_p(benchmark::State& state) {
  run(state, with(kOff, [](auto& p) { p.min_p = 0.05f; }));
}
void only_typical(benchmark::State& state) {
  run(state, with(kOff, [](auto& p) { p.typical_p = 0.9f; }));
}
void top_k_1000(benchmark::State& state) {
  run(state, {.top_k = 1000});
}
void penalties(benchmark::State& state) {
  run(state, {.repeat_penalty = 1.1f});
}
void dry(benchmark::State& state) {
  run(state, {.dry_multiplier = 0.8f});
}
void ignore_eos(benchmark::State& state) {
  run(state, {.ignore_eos = true});
}
void logprobs_5(benchmark::State& state) {
  run(state, {}, 5);
}
void mask(benchmark::State& state) {
  run(state, {}, -1, true);
}
void mirostat_2(benchmark::State& state) {
  run(state, {.mirostat = 2});
}

#define GEZEL_BENCH(name) BENCHMARK(name)->Arg(49'152)->Arg(262'144)->Unit(benchmark::kMicrosecond)
GEZEL_BENCH(defaults);
GEZEL_BENCH(greedy);
GEZEL_BENCH(full_vocabulary);
GEZEL_BENCH(only_top_p);
GEZEL_BENCH(only_min_p);
GEZEL_BENCH(only_typical);
GEZEL_BENCH(top_k_1000);
GEZEL_BENCH(penalties);
GEZEL_BENCH(dry);
GEZEL_BENCH(ignore_eos);
GEZEL_BENCH(logprobs_5);
GEZEL_BENCH(mask);
GEZEL_BENCH(mirostat_2);

}  // namespace
