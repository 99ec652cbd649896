#include "costmodel/campaign.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "costmodel/slowdown.h"

namespace gezel::costmodel {
namespace {

using Engine = std::function<double(const Setting&, const Point&)>;  // milliseconds of a call

// A processor on which flash attention suffers with depth, as the reference machine and its small model.
double reference(const Setting& setting, const Point& point) {
  const auto n = static_cast<double>(point.tokens), d = static_cast<double>(point.depth);
  const double threads = setting.threads == 1 ? 1.9 : 1;
  if (point.kind == Point::Kind::decode)
    return threads * (setting.flash_attention ? 2.4 + n + 0.0128 * n * d : 3 + n + 0.004 * n * d);
  if (setting.flash_attention && point.tokens < 64) return threads * (5 + 3.2 * n);
  return threads * (setting.flash_attention ? 6 + 0.62 * n + 0.0009 * n * d : 6 + 0.9 * n + 0.0012 * n * d);
}

struct Tally {
  int questions = 0;
  double spent_ms = 0;
  int repeated = 0;
};

// Answers until there is nothing to ask. `company` makes a call slower and takes from its CPU time.
Tally run(
    Campaign& campaign, const Engine& engine, const std::function<double()>& company = [] { return 1.0; }) {
  Tally out;
  for (; out.questions < 1'000; ++out.questions) {
    const auto question = campaign.next();
    if (!question) break;
    if (campaign.repeating()) ++out.repeated;
    const double quiet = engine(question->setting, question->point);
    const double first = company(), second = company();
    const double ms = quiet * std::min(first, second), next = quiet * std::max(first, second);
    campaign.measured(*question, {.ms = ms,
                                  .next_ms = next,
                                  .cpu_ms = quiet,
                                  .spent_ms = ms + next,
                                  .memory = question->setting.flash_attention ? Bytes{90} : Bytes{100}});
    out.spent_ms += ms + next;
  }
  return out;
}

CampaignOptions roomy() {
  return {.threads = 2, .window = 16'384, .token_bytes = 23 * kKiB, .memory = Bytes{2} << 30};
}

TEST(Campaign, MeasuresEverythingOnceOnAQuietMachineWithinItsBudget) {
  Campaign campaign(roomy());
  const Tally done = run(campaign, reference);
  EXPECT_EQ(done.repeated, 0);
  EXPECT_GT(done.questions, 20);
  // The last measurement of each candidate may begin just before its share is spent.
  EXPECT_LE(done.spent_ms, kCampaignMs + 2 * 2 * kSliceMs);
  EXPECT_TRUE(campaign.clean());
  EXPECT_EQ(campaign.progress(), 1);
  ASSERT_EQ(campaign.candidates().size(), 2U);
}

// Spec 35, case 10.
TEST(Campaign, ChoosesNoFlashAttentionWhereItSuffersWithDepth) {
  Campaign campaign(roomy());
  run(campaign, reference);
  const Candidate* best = choose(campaign.candidates(), "f16", {});
  ASSERT_NE(best, nullptr);
  EXPECT_FALSE(best->setting.flash_attention);
}

TEST(Campaign, PlansNoMeasurementThatIsPredictedToTakeLongerThanASlice) {
  Campaign campaign(roomy());
  while (const auto question = campaign.next()) {
    const double ms = reference(question->setting, question->point);
    const bool first_of_its_kind =
        question->point.kind == Point::Kind::decode || question->point.tokens == 64;
    EXPECT_TRUE(ms < 1.4 * kSliceMs || first_of_its_kind)
        << question->point.tokens << " " << question->point.depth;
    campaign.measured(*question, {.ms = ms, .cpu_ms = ms, .spent_ms = ms});
  }
}

TEST(Campaign, ASlowModelStillGetsWhatOthersArePredictedFrom) {
  Campaign campaign(roomy());
  const Tally done = run(
      campaign, [](const Setting& setting, const Point& point) { return 150 * reference(setting, point); });
  EXPECT_LT(done.questions, 12);
  for (const Candidate& candidate : campaign.candidates()) {
    EXPECT_TRUE(Fit(candidate).decode_ms(1, 4096));
    EXPECT_TRUE(Fit(candidate).prefill_ms(512, 0));
  }
}

TEST(Campaign, OnABusyMachineItMeasuresAgainTakesTheFastestAndComesToAnEnd) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> company(1.0, 2.5);
  Campaign campaign(roomy());
  const Tally done = run(campaign, reference, [&] { return company(random); });
  EXPECT_GT(done.repeated, 0);
  EXPECT_LE(done.spent_ms, 3 * kCampaignMs + 8 * kSliceMs);
  const Candidate* best = choose(campaign.candidates(), "f16", {});
  ASSERT_NE(best, nullptr);
  EXPECT_FALSE(best->setting.flash_attention);
}

TEST(Campaign, TwoRoundsThatAgreeProveEachOther) {
  Campaign campaign(roomy());
  const auto question = *campaign.next();
  campaign.measured(question, {.ms = 20, .next_ms = 40, .cpu_ms = 8, .spent_ms = 60});
  const auto& sample = campaign.candidates()[0].samples[0];
  EXPECT_LT(sample.quality, kCleanQuality);
  campaign.measured(question, {.ms = 20.5, .next_ms = 40, .cpu_ms = 8, .spent_ms = 60});
  EXPECT_GE(sample.quality, kCleanQuality);
  EXPECT_EQ(sample.ms, 20);
}

TEST(Campaign, GoesOnFromWhatIsKnown) {
  Campaign first(roomy());
  for (int i = 0; i < 5; ++i) {
    const auto question = *first.next();
    first.measured(question, {.ms = 5, .cpu_ms = 5, .spent_ms = 10});
  }
  Campaign second(roomy(), first.candidates());
  EXPECT_EQ(second.next()->point, first.next()->point);
  run(second, reference);
  EXPECT_FALSE(Campaign(roomy(), second.candidates()).next());
}

TEST(Campaign, WhatWasInterruptedIsAskedAgain) {
  Campaign campaign(roomy());
  const auto question = *campaign.next();
  campaign.interrupted(question);
  EXPECT_TRUE(campaign.candidates().empty());
  EXPECT_EQ(campaign.next()->point, question.point);
}

TEST(Campaign, LittleMemoryMeansFewerStreamsThenLessDepth) {
  auto options = roomy();
  options.memory = 200 * kMiB;
  bool deep = false;
  Campaign some(options);
  run(some, [&](const Setting& setting, const Point& point) {
    deep = deep || point.depth > kMiddleDepth;
    EXPECT_LE(point.kind == Point::Kind::decode ? point.tokens : 1, 2);
    return reference(setting, point);
  });
  options.memory = 8 * kMiB;
  Campaign little(options);
  run(little, [](const Setting& setting, const Point& point) {
    EXPECT_EQ(point.depth, 0);
    return reference(setting, point);
  });
  EXPECT_NE(choose(little.candidates(), "f16", {}), nullptr);
}

TEST(Campaign, WhatIsRefusedAgainAndAgainEnds) {
  Campaign campaign(roomy());
  int asked = 0;
  while (const auto question = campaign.next()) {
    campaign.refused(*question);
    ASSERT_LT(++asked, 40);
  }
  EXPECT_EQ(choose(campaign.candidates(), "f16", {}), nullptr);
}

TEST(Campaign, TriesOneThreadForEachCoreWithTheBetterSettingOnly) {
  auto options = roomy();
  options.physical_cores = 1;
  Campaign campaign(options);
  run(campaign, reference);
  ASSERT_EQ(campaign.candidates().size(), 3U);
  EXPECT_EQ(campaign.candidates()[2].setting, (Setting{false, "f16", 1}));
  EXPECT_EQ(choose(campaign.candidates(), "f16", {})->setting.threads, 2);
}

TEST(Campaign, NeverGoesDeeperThanTheWindow) {
  auto options = roomy();
  options.window = 1'024;
  Campaign campaign(options);
  run(campaign, [](const Setting& setting, const Point& point) {
    EXPECT_LE(point.depth, 1'024);
    return reference(setting, point);
  });
}

// Spec 35, case 12: one report.
TEST(Slowdown, IsSaidOnceAfterAMinuteAndAgainOnlyAfterItWasOver) {
  SlowdownWatch watch;
  MonotonicTime now{std::chrono::hours(1)};
  int said = 0;
  const auto pass = [&](int seconds, double speed) {
    for (int i = 0; i < seconds; i += 5) {
      now += std::chrono::seconds(5);
      said += watch.observe(speed, 100, now) ? 1 : 0;
    }
  };
  pass(600, 61);
  EXPECT_EQ(said, 0);
  pass(55, 50);
  EXPECT_EQ(said, 0);
  pass(600, 50);
  EXPECT_EQ(said, 1);
  pass(10, 90);
  pass(90, 50);
  EXPECT_EQ(said, 2);
}

}  // namespace
}  // namespace gezel::costmodel
