#include "cli/doctor_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kTenGigabytes = 10e9;

// Reads 80 MB a token.
SpeedFacts model_with(double decode_tps, double shallow_tps) {
  return {.model = "m",
          .decode_tps = decode_tps,
          .shallow_tps = shallow_tps,
          .at_depth = 4'096,
          .weights = 70'000'000,
          .cache = 10'000'000,
          .kv_type = "f16"};
}

std::string detail_of(const SpeedFacts& facts, std::optional<double> memory_speed = kTenGigabytes) {
  return judge_speeds({facts}, memory_speed, 2, {}).back().detail;
}

TEST(DoctorSpeed, SaysWhatMemoryDeliversAndWhatAModelUsesOfIt) {
  const auto findings = judge_speeds({model_with(100, 110)}, kTenGigabytes, 2, {});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].detail, "10.0 GB/s, read by 2 threads");
  EXPECT_EQ(findings[1].subject, "m");
  EXPECT_THAT(findings[1].detail, AllOf(HasSubstr("100.0 tok/s at a depth of 4,096 tokens"),
                                        HasSubstr("76.3 MiB"), HasSubstr("8.0 GB/s or 80 %")));
}

TEST(DoctorSpeed, AModelThatReadsAsFastAsMemoryDeliversWaitsForMemory) {
  EXPECT_THAT(detail_of(model_with(100, 110)), HasSubstr("memory bandwidth is the limit"));
}

TEST(DoctorSpeed, WhereTheCacheIsMostOfItItsTypeIsTheRemedy) {
  auto facts = model_with(100, 110);
  std::swap(facts.weights, facts.cache);
  EXPECT_THAT(judge_speeds({facts}, kTenGigabytes, 2, {}).back().remedy, HasSubstr("--kv-type q8_0"));
  facts.kv_type = "q8_0";
  EXPECT_EQ(judge_speeds({facts}, kTenGigabytes, 2, {}).back().remedy, "");
}

TEST(DoctorSpeed, AModelThatIsMuchFasterAtTheBeginningWaitsForAttention) {
  EXPECT_THAT(detail_of(model_with(50, 200)),
              HasSubstr("attention over the 4,096 tokens before is the limit (75 % of the time)"));
}

TEST(DoctorSpeed, OtherwiseItIsTheProcessor) {
  EXPECT_THAT(detail_of(model_with(50, 60)), HasSubstr("the processor's cores are the limit"));
}

TEST(DoctorSpeed, MoreThanMemoryDeliversComesFromTheProcessorsCache) {
  EXPECT_THAT(detail_of(model_with(200, 220)), HasSubstr("160 %"));
  EXPECT_THAT(detail_of(model_with(200, 220)), HasSubstr("stays in the processor's cache"));
}

TEST(DoctorSpeed, WithoutTheMemorysSpeedNothingIsCompared) {
  const auto findings = judge_speeds({model_with(100, 110)}, std::nullopt, 2, {});
  EXPECT_EQ(findings[0].verdict, Verdict::note);
  EXPECT_EQ(findings[1].detail, "100.0 tok/s at a depth of 4,096 tokens");
}

TEST(DoctorSpeed, ADisturbedMeasurementIsToBeMadeAgain) {
  auto facts = model_with(50, 60);
  facts.undisturbed = false;
  const auto finding = judge_speeds({facts}, kTenGigabytes, 2, {}).back();
  EXPECT_THAT(finding.detail, HasSubstr("other programs disturbed the measurement"));
  EXPECT_EQ(finding.remedy, "gezel tune m");
}

TEST(DoctorSpeed, ModelsThatWereNotMeasuredAreNamed) {
  const auto findings = judge_speeds({}, std::nullopt, 2, {"a", "b", "c", "d", "e", "f", "g"});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::note);
  EXPECT_EQ(findings[0].detail, "not measured yet: a, b, c, d, e and 2 more");
  EXPECT_EQ(findings[0].remedy, "gezel tune a");
}

TEST(DoctorSpeed, WithoutModelsThereIsNothingToSay) {
  EXPECT_TRUE(judge_speeds({}, kTenGigabytes, 2, {}).empty());
}

}  // namespace
}  // namespace gezel::cli
