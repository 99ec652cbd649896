#include <gtest/gtest.h>

#include <random>

#include "costmodel/chunk_plan.h"
#include "costmodel/cost_model.h"

namespace gezel::costmodel {
namespace {

// A model that knows a prefill rate (tokens per ms) and a decode time.
CostModel known(double tokens_per_ms, double decode_ms, int streams) {
  CostModel costs;
  for (int i = 0; i < 50; ++i) {
    costs.observe_prefill(64 + 16 * (i % 20), 0, (64 + 16 * (i % 20)) / tokens_per_ms);
    if (streams > 0) costs.observe_decode(streams, 0, decode_ms);
  }
  return costs;
}

TEST(CostModel, FindsKnownCoefficientsThroughNoise) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  CostModel costs;
  const auto truth = [](double n, double d) { return 8.0 + 0.9 * n + 0.0004 * n * d; };
  for (int i = 0; i < 2000; ++i) {
    const double n = 16.0 * static_cast<double>(1 + random() % 32);
    const double d = static_cast<double>(random() % 8000);
    costs.observe_prefill(static_cast<std::int64_t>(n), static_cast<std::int64_t>(d),
                          truth(n, d) * noise(random));
  }
  for (const double n : {48.0, 300.0, 512.0}) {
    for (const double d : {100.0, 3000.0, 7000.0}) {
      const double predicted = costs.prefill_ms(static_cast<std::int64_t>(n), static_cast<std::int64_t>(d));
      EXPECT_NEAR(predicted / truth(n, d), 1.0, 0.2) << n << " " << d;
    }
  }
  EXPECT_NEAR(costs.prefill_fit().coefficients()[1], 0.9, 0.15 * 0.9);
}

TEST(CostModel, FindsWhatACallPaysForTheCellsBeforeIt) {
  CostModel costs;
  const auto truth = [](double n, double d) { return 15 + 4.2 * n + 0.0015 * n * d + 0.008 * d; };
  // Ever smaller chunks of one prompt, as the planner cuts them.
  for (std::int64_t d = 0, n = 32; d < 5000; d += n) {
    n = d < 500 ? 32 : d < 2000 ? 16 : 8;
    costs.observe_prefill(n, d, truth(static_cast<double>(n), static_cast<double>(d)));
  }
  EXPECT_NEAR(costs.prefill_ms(4, 5000) / truth(4, 5000), 1.0, 0.1);
}

TEST(CostModel, ExplainsASingleStepByItsTokens) {
  CostModel costs;
  costs.observe_prefill(100, 0, 50);
  EXPECT_NEAR(costs.prefill_ms(200, 0), 100, 2);
}

TEST(CostModel, NeverPredictsNegativeTimes) {
  CostModel costs;
  costs.observe_prefill(512, 0, 10);
  costs.observe_prefill(16, 4000, 200);
  EXPECT_GE(costs.prefill_ms(1, 0), 0);
  for (const double k : costs.prefill_fit().coefficients()) EXPECT_GE(k, 0);
}

TEST(CostModel, IgnoresImpossibleTimes) {
  CostModel costs;
  costs.observe_prefill(10, 0, 0);
  costs.observe_prefill(10, 0, -3);
  EXPECT_FALSE(costs.knows_prefill());
}

// Spec 35, case 12: the chunk shrinks.
TEST(CostModel, FollowsASlowdownWithinTwentySteps) {
  CostModel costs = known(4, 18, 6);
  ChunkQuestion question{.streams = 6, .remaining = 100'000, .whole_prompt_allowed = false};
  const auto before = plan_chunk(question, costs).tokens;
  for (int i = 0; i < 20; ++i) {
    costs.observe_prefill(before, 0, 2.0 * static_cast<double>(before) / 4);
    costs.observe_decode(6, 0, 36);
  }
  EXPECT_LT(plan_chunk(question, costs).tokens, before * 7 / 10);
}

// Spec 40, case 45.
TEST(ChunkPlan, FillsTheTargetWithSixStreams) {
  ChunkQuestion question{.streams = 6, .remaining = 100'000};
  EXPECT_EQ(plan_chunk(question, known(4, 18, 6)).tokens, 448);
  EXPECT_EQ(plan_chunk(question, known(4, 60, 6)).tokens, 272);
  EXPECT_EQ(plan_chunk(question, known(90, 18, 6)).tokens, 2032);
}

TEST(ChunkPlan, IsBoundedByTokensAndTimeWithoutStreams) {
  ChunkQuestion question{.streams = 0, .remaining = 100'000};
  EXPECT_EQ(plan_chunk(question, known(4, 0, 0)).tokens, 512);
  EXPECT_EQ(plan_chunk(question, known(0.5, 0, 0)).tokens, 240);
}

TEST(ChunkPlan, StartsSmallWhenNothingIsKnownAndStreamsAreLive) {
  EXPECT_EQ(plan_chunk({.streams = 1, .remaining = 5000}, CostModel()).tokens, 64);
  EXPECT_EQ(plan_chunk({.streams = 0, .remaining = 5000}, CostModel()).tokens, 512);
}

TEST(ChunkPlan, RunsAShortPromptAtOnce) {
  const CostModel costs = known(4, 18, 6);
  const auto answer = plan_chunk({.streams = 6, .remaining = 560}, costs);  // 140 ms
  EXPECT_EQ(answer.tokens, 560);
  EXPECT_TRUE(answer.whole_prompt);
}

TEST(ChunkPlan, RunsAShortPromptInChunksWhenTheExceptionWasUsedJustNow) {
  const CostModel costs = known(4, 18, 6);
  const auto answer = plan_chunk({.streams = 6, .remaining = 560, .whole_prompt_allowed = false}, costs);
  EXPECT_EQ(answer.tokens, 448);
}

TEST(ChunkPlan, RaisesTheTargetOnlyWhenSeveralPromptsWait) {
  const CostModel costs = known(4, 60, 6);
  EXPECT_EQ(plan_chunk({.streams = 6, .remaining = 100'000, .prompts_waiting = 1}, costs).tokens, 272);
  EXPECT_EQ(plan_chunk({.streams = 6, .remaining = 100'000, .prompts_waiting = 2}, costs).tokens,
            480);  // 180 ms
}

TEST(ChunkPlan, NeverLeavesASingleRow) {
  const CostModel costs = known(4, 18, 6);
  const auto answer = plan_chunk({.streams = 6, .remaining = 449, .whole_prompt_allowed = false}, costs);
  EXPECT_EQ(answer.tokens, 447);
  EXPECT_EQ(plan_chunk({.streams = 6, .remaining = 1}, costs).tokens, 1);
}

TEST(ChunkPlan, UsesTilesOf64WithFlashAttention) {
  const CostModel costs = known(4, 60, 6);
  ChunkQuestion question{.streams = 6, .remaining = 100'000, .tiles_of_64 = true};
  EXPECT_EQ(plan_chunk(question, costs).tokens, 256);
  question.remaining = 256 + 20;
  question.whole_prompt_allowed = false;
  EXPECT_EQ(plan_chunk(question, costs).tokens, 212);  // leaves 64
}

TEST(ChunkPlan, DecodeHeavyStepsStillMakeProgress) {
  const CostModel costs = known(0.01, 500, 6);
  EXPECT_EQ(plan_chunk({.streams = 6, .remaining = 1000}, costs).tokens, 4);
}

TEST(ChunkPlan, CutsFinerThanAUnitWhereAUnitWouldMissTheTarget) {
  const CostModel costs = known(0.1, 30, 3);  // 10 ms a token: 16 tokens take 160 ms
  EXPECT_EQ(plan_chunk({.streams = 3, .remaining = 1000}, costs).tokens, 8);
}

TEST(ChunkPlan, NeverCutsFinerThanATileWithFlashAttention) {
  const CostModel costs = known(0.1, 30, 3);
  EXPECT_EQ(plan_chunk({.streams = 3, .remaining = 1000, .tiles_of_64 = true}, costs).tokens, 64);
}

}  // namespace
}  // namespace gezel::costmodel
