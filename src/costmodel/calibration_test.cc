#include "costmodel/calibration.h"

#include <gtest/gtest.h>

#include <random>

namespace gezel::costmodel {
namespace {

Candidate at_speed(double tokens_per_second, Bytes memory, bool flash) {
  Candidate out{.setting = {.flash_attention = flash, .threads = 2}, .memory = memory};
  for (const std::int64_t depth : {0, 2048, 8192})
    out.samples.push_back({{Point::Kind::decode, 1, depth}, 1000 / tokens_per_second, 1, 1});
  return out;
}

// Spec 35, case 8.
TEST(Choose, OfTwoThatAreAsFastTheOneWithLessMemory) {
  const std::vector<Candidate> both{at_speed(103, 100, true), at_speed(100, 50, false)};
  EXPECT_EQ(choose(both, "f16", {})->memory, 50U);
}

TEST(Choose, OfTwoThatAreAlikeTheOneWithFlashAttention) {
  const std::vector<Candidate> both{at_speed(103, 100, false), at_speed(100, 100, true)};
  EXPECT_TRUE(choose(both, "f16", {})->setting.flash_attention);
}

TEST(Choose, MemoryDoesNotMakeUpForTime) {
  const std::vector<Candidate> both{at_speed(120, 100, false), at_speed(100, 50, true)};
  EXPECT_FALSE(choose(both, "f16", {})->setting.flash_attention);
}

TEST(Choose, OnlyAmongCachesOfTheAskedType) {
  std::vector<Candidate> both{at_speed(120, 100, false), at_speed(100, 50, true)};
  both[1].setting.kv_type = "q8_0";
  EXPECT_TRUE(choose(both, "q8_0", {})->setting.flash_attention);
  EXPECT_EQ(choose(both, "q4_0", {}), nullptr);
}

TEST(Choose, ByWhatTheModelIsAsked) {
  // One reads fast and writes slowly, the other the reverse.
  std::vector<Candidate> both{at_speed(50, 100, true), at_speed(100, 100, false)};
  for (const std::int64_t tokens : {64, 256}) {
    both[0].samples.push_back({{Point::Kind::prefill, tokens, 0}, static_cast<double>(tokens), 1, 1});
    both[1].samples.push_back({{Point::Kind::prefill, tokens, 0}, 4.0 * static_cast<double>(tokens), 1, 1});
  }
  EXPECT_TRUE(choose(both, "f16", {.depth = 0, .prompt = 4000, .decoded = 50})->setting.flash_attention);
  EXPECT_FALSE(choose(both, "f16", {.depth = 0, .prompt = 100, .decoded = 500})->setting.flash_attention);
}

TEST(Choose, ReadingCountsOnlyWhereItWasMeasuredOfAll) {
  std::vector<Candidate> both{at_speed(50, 100, true), at_speed(100, 100, false)};
  both[1].samples.push_back({{Point::Kind::prefill, 64, 0}, 10'000, 1, 1});
  EXPECT_FALSE(choose(both, "f16", {})->setting.flash_attention);
}

// Spec 35, case 9.
TEST(Fit, FindsKnownCoefficientsThroughNoise) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  Candidate candidate;
  const auto truth = [](double s, double d) { return 4 + 2 * s + 0.003 * s * d; };
  for (int i = 0; i < 40; ++i) {
    for (const std::int64_t streams : {1, 4}) {
      for (const std::int64_t depth : {0, 2048, 8192}) {
        candidate.samples.push_back(
            {{Point::Kind::decode, streams, depth},
             truth(static_cast<double>(streams), static_cast<double>(depth)) * noise(random),
             1,
             1});
      }
    }
  }
  const Fit fit(candidate);
  for (const double streams : {1.0, 2.0, 3.0})
    for (const double depth : {500.0, 4096.0, 6000.0})
      EXPECT_NEAR(*fit.decode_ms(streams, depth) / truth(streams, depth), 1, 0.2);
  EXPECT_GT(fit.error(), 0);
  EXPECT_LT(fit.error(), 0.3);
}

// Chunks below a tile are several times slower with flash attention and are never used.
TEST(Fit, LeavesSmallChunksOutWithFlashAttention) {
  Candidate candidate{.setting = {.flash_attention = true}};
  candidate.samples = {{{Point::Kind::prefill, 16, 0}, 60, 1, 1},
                       {{Point::Kind::prefill, 64, 0}, 50, 1, 1},
                       {{Point::Kind::prefill, 512, 0}, 400, 1, 1}};
  EXPECT_NEAR(*Fit(candidate).prefill_ms(512, 0), 400, 20);
}

TEST(Fit, SaysNothingAboutWhatWasNotMeasured) {
  EXPECT_EQ(Fit(Candidate{}).decode_ms(1, 0), std::nullopt);
  EXPECT_EQ(Fit(Candidate{}).prefill_ms(64, 0), std::nullopt);
}

}  // namespace
}  // namespace gezel::costmodel
