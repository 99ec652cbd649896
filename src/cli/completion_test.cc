#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/console.h"

namespace gezel::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

const ModelLists kLists{
    .installed = [] { return std::vector<std::string>{"llama-cpp:gemma3-270m", "llama-cpp:smollm2"}; },
    .loaded = [] { return std::vector<std::string>{"llama-cpp:smollm2"}; }};

std::vector<std::string> offers(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const Candidate& candidate : complete_words(words, kLists)) out.push_back(candidate.text);
  return out;
}

TEST(Completion, OffersCommandsByPrefixAndHidesInternalOnes) {
  EXPECT_THAT(offers({"c"}), ElementsAre("chat", "cache", "completion"));
  EXPECT_THAT(offers({""}), IsSupersetOf({"run", "serve", "doctor", "help"}));
  EXPECT_THAT(offers({"_"}), IsEmpty());
  EXPECT_THAT(offers({"help", "mo"}), ElementsAre("models"));
}

TEST(Completion, OffersModelsWhereACommandWantsOne) {
  EXPECT_THAT(offers({"run", ""}), ElementsAre("gemma3-270m", "smollm2"));
  EXPECT_THAT(offers({"run", "--seed", "3", "sm"}), ElementsAre("smollm2"));
  EXPECT_THAT(offers({"run", "llama-cpp:g"}), ElementsAre("llama-cpp:gemma3-270m"));
  EXPECT_THAT(offers({"run", "smollm2", ""}), IsEmpty());  // the prompt is the user's
  EXPECT_THAT(offers({"stop", ""}), ElementsAre("smollm2"));
  EXPECT_THAT(offers({"stop", "smollm2", ""}), IsEmpty());
}

TEST(Completion, OffersFlagsTheirChoicesAndPaths) {
  EXPECT_THAT(offers({"serve", "--log"}), ElementsAre("--log-format", "--log-level"));
  EXPECT_THAT(offers({"serve", "--flash-attn", ""}), ElementsAre("on", "off"));
  EXPECT_THAT(offers({"serve", "--flash-attn=o"}), ElementsAre("--flash-attn=on", "--flash-attn=off"));
  EXPECT_THAT(offers({"serve", "--engine", "x"}), ElementsAre(":file"));
  EXPECT_THAT(offers({"models", "--home", ""}), ElementsAre(":folder"));
  EXPECT_THAT(offers({"import", "--mode", "c"}), ElementsAre("copy"));
  EXPECT_THAT(offers({"import", ""}), ElementsAre(":file"));
  EXPECT_THAT(offers({"completion", "z"}), ElementsAre("zsh"));
  EXPECT_THAT(offers({"cache", "un"}), ElementsAre("unpin"));
  EXPECT_THAT(offers({"cache", "list", ""}), ElementsAre("smollm2"));
  EXPECT_THAT(offers({"cache", "warm", "smollm2", "--messages", ""}), ElementsAre(":file"));
}

TEST(Completion, OffersNothingForUnknownCommandsAndValuesOfTheUser) {
  EXPECT_THAT(offers({"nonsense", ""}), IsEmpty());
  EXPECT_THAT(offers({"serve", "--port", ""}), IsEmpty());
  EXPECT_THAT(offers({"run", "--", "--js"}), Not(Contains("--json")));
}

TEST(Completion, DescribesWhatItOffers) {
  const auto candidates = complete_words({"ps"}, kLists);
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_EQ(candidates[0].about, "show the models that are loaded");
}

// Runs the script in the real shell with a stand-in for gezel.
std::string bash_offers(const std::string& line) {
  const std::string script = std::string(completion_script("bash")) + R"(
gezel() { [ "$1" = __complete ] || return 1; shift; printf 'got-%s\tabout\n' "$@"; printf '%s\tx\n' llama-cpp:a; }
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
_gezel gezel
printf '%s\n' "${COMPREPLY[@]}"
)";
  const auto result = run_program("/bin/bash", {"--norc", "-c", script, "bash", line}, Millis(10'000));
  return result ? result->output : result.error().message;
}

TEST(CompletionScript, BashPassesTheWordsUpToTheCursor) {
  EXPECT_EQ(bash_offers("gezel run sm"), "got-run\ngot-sm\nllama-cpp:a\n");
  EXPECT_EQ(bash_offers("gezel run "), "got-run\ngot-\nllama-cpp:a\n");
}

TEST(CompletionScript, BashReplacesOnlyWhatFollowsAColon) {
  EXPECT_EQ(bash_offers("gezel run llama-cpp:"), "got-run\ngot-llama-cpp:\na\n");
}

TEST(CompletionScript, EveryShellAsksTheHiddenCommand) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(std::string(completion_script(shell)), ::testing::HasSubstr("__complete")) << shell;
  }
}

}  // namespace
}  // namespace gezel::cli
