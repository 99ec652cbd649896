#include "profiles/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "template/test_support.h"

namespace gezel::profiles {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Profiles of(std::vector<std::string> shipped, std::vector<std::string> user = {}) {
  const auto files = [](std::vector<std::string>& texts) {
    std::vector<File> out;
    for (auto& text : texts) out.push_back({"file" + std::to_string(out.size()) + ".json", std::move(text)});
    return out;
  };
  auto profiles = assemble(files(shipped), files(user));
  for (const auto& problem : profiles.problems) ADD_FAILURE() << problem.message;
  return profiles;
}

const Profiles& shipped() {
  static const Profiles profiles = assemble(shipped_files(), {});
  return profiles;
}

// Every architecture that a shipped profile asks for, and one that none does.
std::vector<std::string> architectures() {
  std::vector<std::string> out{"", "other"};
  for (const auto& profile : shipped().all)
    out.insert(out.end(), profile.match.architecture.begin(), profile.match.architecture.end());
  return out;
}

// A profile with values for one model may stand before the one that teaches how the family writes, and must
// not change that.
TEST(ShippedProfiles, HowAModelWritesIsToldByItsTemplateAlone) {
  const auto templates = chat::testing_support::pinned_templates();
  const auto lines =
      chat::testing_support::read_lines(chat::testing_support::root() / "testdata/profiles/styles.jsonl");
  std::size_t pinned = 0;
  for (const auto& line : lines) {
    const auto& entry = line.as_object();
    std::string text = string_or(entry, "text");
    if (const auto name = string_or(entry, "template"); !name.empty()) {
      ASSERT_TRUE(templates.contains(name)) << name;
      text = templates.at(name);
      ++pinned;
    }
    for (const auto& architecture : architectures()) {
      const auto applied = apply(shipped(), {.id = "x", .architecture = architecture, .chat_template = text});
      EXPECT_EQ(applied.style.dialect, string_or(entry, "dialect")) << to_json(line) << ' ' << architecture;
      EXPECT_EQ(applied.style.family, string_or(entry, "family")) << to_json(line) << ' ' << architecture;
    }
  }
  EXPECT_EQ(pinned, templates.size());
}

TEST(ShippedProfiles, ValuesOfTheMakers) {
  const auto templates = chat::testing_support::pinned_templates();
  struct Case {
    std::string file, architecture, name;
    std::optional<float> temperature, when_thinking;
  };
  const std::vector<Case> cases{
      {"Qwen-Qwen3-0.6B.jinja", "qwen3", "qwen3", 0.7f, 0.6f},
      {"Qwen3-Coder.jinja", "qwen3moe", "qwen3-coder", 0.7f, 0.7f},
      {"Qwen-QwQ-32B.jinja", "qwen2", "qwq", 0.6f, 0.6f},
      {"Qwen-Qwen2.5-7B-Instruct.jinja", "qwen2", "qwen2.5", 0.7f, 0.7f},
      {"Qwen-Qwen3-0.6B.jinja", "llama", "hermes", std::nullopt, std::nullopt},
      {"HuggingFaceTB-SmolLM3-3B.jinja", "smollm3", "smollm3", 0.6f, 0.6f},
      {"Kimi-K2-Instruct.jinja", "deepseek2", "kimi-k2", 0.6f, 1.0f},
      {"openai-gpt-oss-120b.jinja", "gpt-oss", "gpt-oss", 1.0f, 1.0f},
      {"meta-llama-Llama-3.2-3B-Instruct.jinja", "llama", "llama", 0.6f, 0.6f},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "qwen2", "deepseek-r1", 0.6f, 0.6f},
      {"NVIDIA-Nemotron-Nano-v2.jinja", "nemotron_h", "nemotron", std::nullopt, 0.6f},
  };
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.file);
    const auto applied =
        apply(shipped(),
              {.id = "x", .architecture = entry.architecture, .chat_template = templates.at(entry.file)});
    EXPECT_EQ(applied.name, entry.name);
    EXPECT_EQ(applied.tuning.sampling.temperature, entry.temperature);
    EXPECT_EQ(applied.tuning.sampling_when_thinking.temperature, entry.when_thinking);
    EXPECT_FALSE(applied.user);
  }
  const auto moe = apply(shipped(), {"x", "qwen35moe", "<tool_call><function="});
  EXPECT_EQ(moe.tuning.sampling.presence_penalty, 1.5f);
  EXPECT_EQ(moe.tuning.sampling_when_thinking.temperature, 1.0f);
  ASSERT_EQ(moe.named.size(), 1U);
  EXPECT_EQ(moe.named[0].profile, "thinking-coding");
  EXPECT_EQ(moe.named[0].tuning.sampling_when_thinking.temperature, 0.6f);
  EXPECT_EQ(moe.named[0].tuning.sampling_when_thinking.presence_penalty, 0.0f);
  const auto gemma =
      apply(shipped(), {.id = "x", .architecture = "gemma3", .chat_template = "<start_of_turn>"});
  EXPECT_EQ(to_json(to_json_object(gemma)),
            R"({"name":"gemma-3","user":false,"sampling":{"temperature":1E0,"top_p":9.5E-1,"top_k":64}})");
}

TEST(Match, EveryListThatIsGivenMustFit) {
  const Match match{{"<a>", "<b>"}, {"llama", "qwen2"}, {"smol*", "x"}};
  EXPECT_TRUE(fits(match, {"smollm2", "qwen2", "..<b>..<a>"}));
  EXPECT_FALSE(fits(match, {"smollm2", "qwen2", "<a>"}));
  EXPECT_FALSE(fits(match, {"smollm2", "qwen", "<a><b>"}));
  EXPECT_FALSE(fits(match, {"gemma", "qwen2", "<a><b>"}));
}

TEST(Match, PatternsOfModelIds) {
  const auto fit = [](std::string pattern, std::string_view id) {
    return fits({.chat_template = {}, .architecture = {}, .model = {std::move(pattern)}}, {id, "", ""});
  };
  EXPECT_TRUE(fit("smollm2-135m-instruct", "SmolLM2-135M-Instruct"));
  EXPECT_TRUE(fit("*", ""));
  EXPECT_TRUE(fit("*135m*", "smollm2-135m-instruct"));
  EXPECT_TRUE(fit("smol??2*", "smollm2"));
  EXPECT_TRUE(fit("*a*b*c", "xaxbabc"));
  EXPECT_FALSE(fit("smollm2", "smollm2-135m"));
  EXPECT_FALSE(fit("?", ""));
  EXPECT_FALSE(fit("*a*b*c", "xaxbab"));
  // Not exponential.
  std::string stars;
  for (int i = 0; i < 100; ++i) stars += "a*";
  EXPECT_FALSE(fit(stars + "b", std::string(10'000, 'a')));
}

TEST(Layers, TheFirstThatFitsIsTheFamilysAndThoseThatNameTheModelAreLaidOverIt) {
  const auto profiles =
      of({R"({"name":"a","order":1,"match":{"chat_template":["<x>"]},"dialect":"hermes",
                                "family":"gemma","max_tokens":10,"thinking_budget":5})",
          R"({"name":"b","order":2,"match":{"chat_template":["<x>"]},"dialect":"glm"})"},
         {R"({"name":"weak","order":9,"match":{"model":["m*"]},"max_tokens":20,"thinking_budget":6})",
          R"({"name":"strong","order":8,"match":{"model":["m"]},"max_tokens":30,"dialect":""})"});
  const auto applied = apply(profiles, {"m", "", "<x>"});
  EXPECT_EQ(applied.name, "a");
  EXPECT_THAT(applied.overrides, ElementsAre("strong", "weak"));
  EXPECT_TRUE(applied.user);
  EXPECT_EQ(applied.style.dialect, "");
  EXPECT_EQ(applied.style.family, "gemma");
  EXPECT_EQ(applied.tuning.max_tokens, 30);
  EXPECT_EQ(applied.tuning.thinking_budget, 6);
  // Without a family there may still be an override.
  EXPECT_THAT(apply(profiles, {"m", "", ""}).overrides, ElementsAre("strong", "weak"));
  EXPECT_EQ(apply(profiles, {"m", "", ""}).name, "");
  EXPECT_THAT(apply(profiles, {"other", "", "<x>"}).overrides, IsEmpty());
}

TEST(Layers, ShippedThenTheModelsFileThenTheUser) {
  const auto profiles = of({R"({"name":"a","match":{"architecture":["x"]},
      "sampling":{"temperature":1,"top_k":1,"top_p":0.1,"min_p":0.1},
      "sampling_when_thinking":{"temperature":1.1,"top_p":0.2}})"},
                           {R"({"name":"mine","match":{"model":["m"]},"sampling":{"top_p":0.5},
                                "sampling_when_thinking":{"min_p":0.9}})"});
  prompt::SamplingOptions file;
  file.top_k = 2;
  file.top_p = 0.3f;
  file.temperature = 1.5f;
  const auto tuning = apply(profiles, {"m", "x", ""}, file).tuning;
  EXPECT_EQ(tuning.sampling.temperature, 1.5f);  // the file's over the shipped
  EXPECT_EQ(tuning.sampling.top_k, 2);
  EXPECT_EQ(tuning.sampling.top_p, 0.5f);  // the user's over both
  EXPECT_EQ(tuning.sampling.min_p, 0.1f);
  EXPECT_EQ(tuning.sampling_when_thinking.temperature, 1.5f);
  EXPECT_EQ(tuning.sampling_when_thinking.top_p, 0.5f);
  EXPECT_EQ(tuning.sampling_when_thinking.min_p, 0.9f);
  // Without the file and the user.
  const auto bare = apply(profiles, {"other", "x", ""}).tuning;
  EXPECT_EQ(bare.sampling.temperature, 1.0f);
  EXPECT_EQ(bare.sampling_when_thinking.temperature, 1.1f);
  EXPECT_EQ(bare.sampling_when_thinking.top_k, 1);
}

const prompt::Tuning& named(const Applied& applied, std::string_view id) {
  const auto found = std::ranges::find(applied.named, id, &prompt::NamedTuning::profile);
  EXPECT_NE(found, applied.named.end()) << id;
  static const prompt::Tuning nothing;
  return found == applied.named.end() ? nothing : found->tuning;
}

TEST(NamedTunings, LieOverTheModelsValuesAndBelowThoseForThinking) {
  const auto profiles = of({R"({"name":"a","match":{"architecture":["x"]},
      "sampling":{"temperature":0.7,"top_k":20},"sampling_when_thinking":{"temperature":0.6},
      "template_kwargs":{"a":{"b":1}},"max_tokens":10,"thinking_budget":50,
      "profiles":{"creative":{"sampling":{"temperature":1.2,"top_p":0.9},"template_kwargs":{"a":{"c":2}},"max_tokens":20},
                  "thinking-coding":{"sampling":{"top_p":0.5}},
                  "terse":{"sampling_when_thinking":{"temperature":0.3}}}})"});
  const auto applied = apply(profiles, {"m", "x", ""});
  ASSERT_EQ(applied.named.size(), 3U);
  const auto& creative = named(applied, "creative");
  EXPECT_EQ(creative.sampling.temperature, 1.2f);
  EXPECT_EQ(creative.sampling.top_k, 20);
  EXPECT_EQ(creative.sampling_when_thinking.temperature, 0.6f);
  EXPECT_EQ(creative.sampling_when_thinking.top_p, 0.9f);
  EXPECT_EQ(creative.template_kwargs, R"({"a":{"b":1,"c":2}})");
  EXPECT_EQ(creative.max_tokens, 20);
  EXPECT_EQ(creative.thinking_budget, 50);
  // A profile for thinking is asked for what it says: nothing is laid over it.
  const auto& coding = named(applied, "thinking-coding");
  EXPECT_EQ(coding.sampling_when_thinking.temperature, 0.7f);
  EXPECT_EQ(coding.sampling_when_thinking.top_p, 0.5f);
  EXPECT_EQ(named(applied, "terse").sampling_when_thinking.temperature, 0.3f);
  EXPECT_EQ(applied.tuning.sampling.temperature, 0.7f);
}

TEST(NamedTunings, TheUsersFilesCountMoreAndChoose) {
  const auto profiles = of({R"({"name":"a","match":{"architecture":["x"]},"tuning_profile":"instruct",
      "profiles":{"creative":{"sampling":{"temperature":1.2,"top_p":0.9}}}})"},
                           {R"({"name":"a","profiles":{"creative":{"sampling":{"temperature":1.1}}}})",
                            R"({"name":"mine","match":{"model":["m"]},"tuning_profile":"creative",
      "sampling":{"top_p":0.4},"profiles":{"creative":{"sampling":{"temperature":1.5}}}})"});
  const auto mine = apply(profiles, {"m", "x", ""});
  EXPECT_EQ(mine.tuning_profile, "creative");
  EXPECT_EQ(named(mine, "creative").sampling.temperature, 1.5f);
  EXPECT_EQ(named(mine, "creative").sampling.top_p, 0.9f) << "a named profile lies over all of the base";
  EXPECT_EQ(apply(profiles, {"other", "x", ""}).tuning_profile, "instruct");
  EXPECT_EQ(named(apply(profiles, {"other", "x", ""}), "creative").sampling.temperature, 1.1f);
}

TEST(NamedTunings, AreShownAsDifferences) {
  const auto profiles = of({}, {R"({"name":"mine","match":{"model":["m"]},"sampling":{"temperature":0.3},
      "max_tokens":9,"tuning_profile":"terse","prompt_tags":{"disable_thinking":"/no_think"},
      "profiles":{"terse":{"max_tokens":5},"creative":{"sampling":{"temperature":0.5}}}})"});
  EXPECT_EQ(json::value(to_json_object(apply(profiles, {"m", "", ""}))),
            json::parse(R"({"name":null,"overrides":["mine"],"user":true,"sampling":{"temperature":0.3},
                            "max_tokens":9,"prompt_tags":{"disable_thinking":"/no_think"},"tuning_profile":"terse",
                            "profiles":{"creative":{"sampling":{"temperature":0.5}},"terse":{"max_tokens":5}}})"));
}

TEST(Layers, BehavioursAreOneListThatIsReplaced) {
  const auto profiles =
      of({R"({"name":"a","match":{"architecture":["x"]},
                                "behaviors":["provider.merge-system-messages"]})"},
         {R"({"name":"mine","match":{"model":["m"]},"behaviors":["capture-pre-tool-prose"]})"});
  EXPECT_EQ(apply(profiles, {"other", "x", ""}).style.behaviors,
            prompt::Behaviors{.merge_system_messages = true});
  EXPECT_EQ(apply(profiles, {"m", "x", ""}).style.behaviors,
            prompt::Behaviors{.capture_pre_tool_prose = true});
  EXPECT_EQ(to_json(to_json_object(apply(profiles, {"other", "x", ""})).at("behaviors")),
            R"(["provider.merge-system-messages"])");
}

TEST(Layers, ChangesToAShippedProfileAreTheUsersWordToo) {
  const auto profiles =
      of({R"({"name":"a","match":{"architecture":["x"]},"sampling":{"temperature":1,"top_k":1}})"},
         {R"({"name":"a","sampling":{"temperature":0.2}})"});
  prompt::SamplingOptions file;
  file.temperature = 1.5f;
  file.top_k = 7;
  const auto applied = apply(profiles, {"m", "x", ""}, file);
  EXPECT_TRUE(applied.user);
  EXPECT_EQ(applied.tuning.sampling.temperature, 0.2f);
  EXPECT_EQ(applied.tuning.sampling.top_k, 7);
}

TEST(Layers, WhatAppliesIsShownAsItWasWritten) {
  const auto profiles =
      of({}, {R"({"name":"mine","match":{"model":["m"]},"reasoning":{"open":"<p>","close":"</p>"},
      "dialect":"hermes","sampling":{"temperature":0.3},"template_kwargs":{"tone":{"a":1}},
      "max_tokens":9})"});
  EXPECT_EQ(json::value(to_json_object(apply(profiles, {"m", "", ""}))),
            json::parse(R"({"name":null,"overrides":["mine"],"user":true,"dialect":"hermes",
                            "reasoning":{"open":"<p>","close":"</p>"},"sampling":{"temperature":0.3},
                            "template_kwargs":{"tone":{"a":1}},"max_tokens":9})"));
  EXPECT_EQ(to_json(to_json_object(Applied{})), R"({"name":null,"user":false})");
}

}  // namespace
}  // namespace gezel::profiles
