#include "profiles/catalog_tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiles/match.h"

namespace gezel::profiles {
namespace {

using ::testing::IsEmpty;

Values read(std::string_view text) {
  std::vector<Problem> problems;
  auto out = read_catalog_tuning(parse_json(text).value().as_object(), "catalog.json", problems);
  for (const auto& problem : problems) ADD_FAILURE() << problem.message;
  return out;
}

// The entry of qwen3.8-27b.
constexpr std::string_view kEntry = R"({
  "sampling": {"temperature": 1, "topP": 0.95, "topK": 20, "minP": 0, "maxTokens": 12288, "repetitionPenalty": 1,
               "presencePenalty": 0},
  "samplingWhenThinking": {"temperature": 0.9},
  "reasoning": {"thinkingBudget": 4096, "enableThinking": true, "templateKwargs": {"reasoning_effort": "medium"}},
  "promptTags": {"enableThinkingTag": "/think", "disableThinkingTag": "/no_think"},
  "engine": {"llamaCpp": {"spec": {"mtp": true, "nMax": 4}}}})";

TEST(CatalogTuning, IsReadInTheNamesOfCatalogs) {
  const auto values = read(kEntry);
  EXPECT_EQ(values.sampling.temperature, 1.0f);
  EXPECT_EQ(values.sampling.top_p, 0.95f);
  EXPECT_EQ(values.sampling.top_k, 20);
  EXPECT_EQ(values.sampling.min_p, 0.0f);
  EXPECT_EQ(values.sampling.repeat_penalty, 1.0f);
  EXPECT_EQ(values.sampling.presence_penalty, 0.0f);
  EXPECT_EQ(values.sampling_when_thinking.temperature, 0.9f);
  EXPECT_EQ(values.max_tokens, 12288);
  EXPECT_EQ(values.thinking_budget, 4096);
  EXPECT_EQ(to_json(values.template_kwargs), R"({"enable_thinking":true,"reasoning_effort":"medium"})");
  EXPECT_EQ(values.think_tag, "/think");
  EXPECT_EQ(values.no_think_tag, "/no_think");
}

TEST(CatalogTuning, DryAndXtcHaveTheirDefaults) {
  const auto values =
      read(R"({"sampling":{"dry":{"multiplier":0.8},"xtc":{"probability":0.5,"threshold":0.1}}})");
  EXPECT_EQ(values.sampling.dry_multiplier, 0.8f);
  EXPECT_EQ(values.sampling.dry_base, 1.75f);
  EXPECT_EQ(values.sampling.dry_allowed_length, 2);
  EXPECT_EQ(values.sampling.xtc_probability, 0.5f);
  EXPECT_EQ(values.sampling.xtc_threshold, 0.1f);
}

TEST(CatalogTuning, NamedProfilesAreOverlays) {
  const auto values =
      read(R"({"profiles":{"creative":{"sampling":{"temperature":1.3}},"unheard":{"sampling":{}}}})");
  ASSERT_EQ(values.named.size(), 1U);
  EXPECT_EQ(values.named[0].first, "creative");
  EXPECT_EQ(values.named[0].second.sampling.temperature, 1.3f);
}

TEST(CatalogTuning, WhatIsWrongIsNamedAndTheRestCounts) {
  std::vector<Problem> problems;
  const auto values = read_catalog_tuning(
      parse_json(R"({"sampling":{"temperature":9,"topP":0.5},"reasoning":{"enableThinking":"yes"}})")
          ->as_object(),
      "catalog.json", problems);
  EXPECT_EQ(values.sampling.top_p, 0.5f);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].message, "/sampling/temperature is 9; it must be a number from 0 to 2");
  EXPECT_EQ(problems[1].message, "/reasoning/enableThinking is \"yes\"; it must be true or false");
}

TEST(CatalogTuning, IsTheWeakestLayer) {
  const std::vector<File> files{
      {"a.json", R"({"name":"a","match":{"architecture":["x"]},"sampling":{"temperature":0.5},
      "profiles":{"creative":{"max_tokens":7}}})"}};
  const auto profiles = assemble(files, {});
  EXPECT_THAT(profiles.problems, IsEmpty());
  auto catalog = read(kEntry);
  catalog.named.emplace_back("creative", Overlay{});
  catalog.named.back().second.max_tokens = 9;
  catalog.named.back().second.thinking_budget = 3;
  const auto applied = apply(profiles, {"m", "x", ""}, {}, &catalog);
  EXPECT_EQ(applied.tuning.sampling.temperature, 0.5f);
  EXPECT_EQ(applied.tuning.sampling_when_thinking.temperature, 0.9f);
  EXPECT_EQ(applied.tuning.sampling.top_k, 20);
  EXPECT_EQ(applied.tuning.tags.no_think, "/no_think");
  ASSERT_EQ(applied.named.size(), 1U);
  EXPECT_EQ(applied.named[0].tuning.max_tokens, 7);
  EXPECT_EQ(applied.named[0].tuning.thinking_budget, 3);
  EXPECT_EQ(apply(profiles, {"m", "other", ""}, {}, &catalog).tuning.sampling.temperature, 1.0f);
}

}  // namespace
}  // namespace gezel::profiles
