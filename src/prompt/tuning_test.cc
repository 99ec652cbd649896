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

GenerateRequest asking(std::string text) {
  GenerateRequest request;
  request.messages = {{.role = Role::user, .content = {{ContentPart::Kind::text, "earlier"}}},
                      {.role = Role::assistant, .content = {{ContentPart::Kind::text, "answer"}}},
                      {.role = Role::user, .content = {{ContentPart::Kind::text, std::move(text)}}}};
  return request;
}
const PromptTags kTags{"/think", "/no_think"};

TEST(ChooseTuning, ANamedOneOrWhatStandsInForIt) {
  const Tuning base = tuned();
  std::vector<NamedTuning> named{{"instruct", base}};
  named[0].tuning.max_tokens = 5;
  EXPECT_EQ(choose_tuning(base, named, "creative").profile, "instruct");
  EXPECT_EQ(choose_tuning(base, named, "creative").tuning.max_tokens, 5);
  EXPECT_EQ(choose_tuning(base, {}, "creative").profile, "");
  EXPECT_EQ(choose_tuning(base, {}, "creative").tuning.max_tokens, 100);
}

TEST(ChooseTuning, DeterministicIsGreedyWhetherTheModelThinksOrNot) {
  Tuning base = tuned();
  base.sampling.temperature = 0.7f;
  base.sampling.top_p = 0.8f;
  base.sampling_when_thinking.temperature = 0.6f;
  const auto chosen = choose_tuning(base, {}, "deterministic");
  EXPECT_EQ(chosen.profile, "deterministic");
  EXPECT_EQ(chosen.tuning.sampling.temperature, 0.0f);
  EXPECT_EQ(chosen.tuning.sampling.top_p, 0.8f);
  EXPECT_EQ(chosen.tuning.sampling_when_thinking.temperature, 0.0f);
  base.sampling.temperature = 0.1f;
  EXPECT_EQ(choose_tuning({}, std::vector<NamedTuning>{{"deterministic", base}}, "deterministic")
                .tuning.sampling.temperature,
            0.1f)
      << "what a file says counts";
}

TEST(ThinkingAsked, TheVariableCountsBeforeTheEffort) {
  GenerateRequest request;
  EXPECT_EQ(thinking_asked(request), ThinkingAsked::unsaid);
  request.reasoning_effort = "low";
  EXPECT_EQ(thinking_asked(request), ThinkingAsked::on);
  request.reasoning_effort = "none";
  EXPECT_EQ(thinking_asked(request), ThinkingAsked::off);
  request.template_kwargs = R"({"enable_thinking":true})";
  EXPECT_EQ(thinking_asked(request), ThinkingAsked::on);
  request.template_kwargs = "[broken";
  EXPECT_EQ(thinking_asked(request), ThinkingAsked::off);
}

TEST(PromptTags, TheLastUserMessageSwitchesAndOffWins) {
  EXPECT_EQ(thinking_tagged(asking("Hi /think"), kTags), ThinkingAsked::on);
  EXPECT_EQ(thinking_tagged(asking("/no_think Hi"), kTags), ThinkingAsked::off);
  EXPECT_EQ(thinking_tagged(asking("/think or\n/no_think"), kTags), ThinkingAsked::off);
  EXPECT_EQ(thinking_tagged(asking("what is a/think? and /thinking"), kTags), ThinkingAsked::unsaid);
  EXPECT_EQ(thinking_tagged(asking("Hi /think"), {}), ThinkingAsked::unsaid);
  EXPECT_EQ(thinking_tagged({}, kTags), ThinkingAsked::unsaid);
}

TEST(PromptTags, AreAppendedWhereTheRequestHasDecided) {
  const auto tagged = [](GenerateRequest request) {
    append_tag(request, kTags);
    EXPECT_EQ(request.messages[0].content[0].text, "earlier");
    return request.messages.back().content.back().text;
  };
  GenerateRequest off = asking("Hi");
  off.reasoning_effort = "none";
  EXPECT_EQ(tagged(off), "Hi /no_think");
  GenerateRequest on = asking("Hi");
  on.template_kwargs = R"({"enable_thinking":true})";
  EXPECT_EQ(tagged(on), "Hi /think");
  EXPECT_EQ(tagged(asking("Hi")), "Hi");
  GenerateRequest there = asking("Hi /no_think");
  there.reasoning_effort = "none";
  EXPECT_EQ(tagged(there), "Hi /no_think");
  GenerateRequest image = asking("");
  image.reasoning_effort = "none";
  image.messages.back().content = {{ContentPart::Kind::image, "data:"}};
  EXPECT_EQ(tagged(image), "/no_think");
}

}  // namespace
}  // namespace gezel::prompt
