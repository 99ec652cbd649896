#include "prompt/tuning.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace gezel::prompt {
namespace {

Tuning tuned() {
  Tuning tuning;
  tuning.template_kwargs = R"({"reasoning_effort":"medium","enable_thinking":false,"tone":"plain"})";
  tuning.max_tokens = 100;
  tuning.thinking_budget = 20;
  return tuning;
}

TEST(Tuning, FillsInWhatARequestLeavesOpen) {
  GenerateRequest request;
  fill_in(request, tuned());
  EXPECT_EQ(request.max_output_tokens, 100);
  EXPECT_EQ(request.max_thinking_tokens, 20);
  EXPECT_EQ(request.template_kwargs, tuned().template_kwargs);
}

TEST(Tuning, WhatARequestSaysStays) {
  GenerateRequest request;
  request.max_output_tokens = 7;
  request.max_thinking_tokens = 0;  // none, said on purpose
  request.template_kwargs = R"({"tone":"loud","more":1})";
  fill_in(request, tuned());
  EXPECT_EQ(request.max_output_tokens, 7);
  EXPECT_EQ(request.max_thinking_tokens, 0);
  EXPECT_EQ(
      parse_json(request.template_kwargs).value(),
      parse_json(R"({"reasoning_effort":"medium","enable_thinking":false,"tone":"loud","more":1})").value());
}

TEST(Tuning, AnEffortOfTheRequestDecidesAboutThinkingAlone) {
  GenerateRequest request;
  request.reasoning_effort = "high";
  fill_in(request, tuned());
  EXPECT_EQ(request.template_kwargs, R"({"tone":"plain"})");
}

TEST(Tuning, DamagedVariablesOfARequestAreLeftForTheRenderer) {
  GenerateRequest request;
  request.template_kwargs = "[1]";
  fill_in(request, tuned());
  EXPECT_EQ(request.template_kwargs, "[1]");
}

TEST(Tuning, LayingOverReplacesOnlyWhatIsSet) {
  SamplingOptions under, over;
  under.temperature = 1.0f;
  under.top_k = 64;
  over.temperature = 0.5f;
  over.repeat_penalty = 1.1f;
  over.dry_sequence_breakers = std::vector<std::string>{"\n"};
  lay_over(under, over);
  EXPECT_EQ(under.temperature, 0.5f);
  EXPECT_EQ(under.top_k, 64);
  EXPECT_EQ(under.repeat_penalty, 1.1f);
  EXPECT_EQ(under.dry_sequence_breakers->size(), 1U);
}

}  // namespace
}  // namespace gezel::prompt
