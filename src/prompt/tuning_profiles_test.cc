#include "prompt/tuning_profiles.h"

#include <gtest/gtest.h>

#include <vector>

namespace gezel::prompt {
namespace {

using Ids = std::vector<std::string_view>;

TEST(TuningProfiles, AreTheEightAndFallBackToOneAnother) {
  EXPECT_EQ(tuning_profile_ids(),
            "thinking-general, thinking-deep, thinking-coding, thinking-precise, instruct, creative, terse, "
            "deterministic");
  for (const auto& profile : kTuningProfiles) {
    for (const auto fallback : profile.fallbacks) {
      if (!fallback.empty()) EXPECT_NE(find_tuning_profile(fallback), nullptr) << profile.id;
    }
  }
  EXPECT_EQ(find_tuning_profile("loud"), nullptr);
}

TEST(TuningProfiles, TheRequestDecidesThenTheInstallationThenTheSuggestion) {
  EXPECT_EQ(wanted_tuning_profile("terse", "creative", "instruct"), "terse");
  EXPECT_EQ(wanted_tuning_profile("", "creative", "instruct"), "creative");
  EXPECT_EQ(wanted_tuning_profile("", "", "instruct"), "instruct");
  EXPECT_EQ(wanted_tuning_profile("", "", ""), "thinking-general");
}

TEST(TuningProfiles, WhatIsNotThereFallsBackAlongItsChain) {
  const Ids all{"thinking-general", "thinking-coding", "instruct", "creative"};
  EXPECT_EQ(resolve_tuning_profile("creative", all), "creative");
  EXPECT_EQ(resolve_tuning_profile("thinking-deep", all), "thinking-general");
  EXPECT_EQ(resolve_tuning_profile("thinking-precise", all), "thinking-coding");
  EXPECT_EQ(resolve_tuning_profile("terse", all), "instruct");
  EXPECT_EQ(resolve_tuning_profile("thinking-precise", Ids{"thinking-general"}), "thinking-general");
  for (const auto* id :
       {"thinking-general", "thinking-deep", "thinking-coding", "thinking-precise", "creative", "terse"})
    EXPECT_EQ(resolve_tuning_profile(id, Ids{"instruct"}), "instruct") << id;
  EXPECT_EQ(resolve_tuning_profile("instruct", Ids{"creative"}), "");
  EXPECT_EQ(resolve_tuning_profile("creative", Ids{}), "");
  EXPECT_EQ(resolve_tuning_profile("loud", all), "");
}

TEST(TuningProfiles, DeterministicMeansSomethingForEveryModel) {
  EXPECT_EQ(resolve_tuning_profile("deterministic", Ids{}), "deterministic");
  EXPECT_EQ(resolve_tuning_profile("deterministic", Ids{"instruct"}), "deterministic");
}

TEST(Tiers, FollowTheNumberOfParameters) {
  EXPECT_EQ(tier_of(4.9), Tier::tiny);
  EXPECT_EQ(tier_of(5), Tier::small);
  EXPECT_EQ(tier_of(11.9), Tier::small);
  EXPECT_EQ(tier_of(12), Tier::medium);
  EXPECT_EQ(tier_of(44.9), Tier::medium);
  EXPECT_EQ(tier_of(45), Tier::large);
  EXPECT_EQ(tier_of(1000), Tier::large);
  EXPECT_EQ(tier_of(std::nullopt), Tier::tiny);
  EXPECT_EQ(tier_name(Tier::cloud), "cloud");
}

TEST(Tiers, SizesAreReadAsPeopleWriteThem) {
  EXPECT_EQ(billions_of("2B"), 2);
  EXPECT_EQ(billions_of("0.6B"), 0.6);
  EXPECT_EQ(billions_of("35B-A3B"), 35);
  EXPECT_EQ(billions_of("8x7B"), 56);
  EXPECT_EQ(billions_of("250M"), 0.25);
  EXPECT_EQ(billions_of("1T"), 1000);
  for (const auto* odd : {"", "B", "large", "7", "7x", "-1B", "8x", "7 B"})
    EXPECT_EQ(billions_of(odd), std::nullopt) << odd;
}

}  // namespace
}  // namespace gezel::prompt
