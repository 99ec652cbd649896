// Runs are played by a script: every byte is a token, the script says what the model would like to write, and
// the steering says what it may.
#include "worker/run_steering.h"

#include <gtest/gtest.h>

#include "grammar/constraint.h"
#include "grammar/tool_grammar.h"

namespace gezel::worker {
namespace {

using grammar::Vocabulary;

template <class T>
T must(Result<T> result) {
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return std::move(*result);
}

grammar::Matcher schema(const char* text, bool leading_space = false) {
  auto prepared = must(grammar::prepare({grammar::ConstraintKind::json_schema, text}));
  prepared.spec.leading_space = leading_space;
  return must(grammar::compile(prepared.spec, Vocabulary::of_bytes()));
}

grammar::LazyMatcher calls(const char* tools) {
  std::vector<std::string> warnings;
  grammar::ToolSet set;
  set.dialect = "hermes";
  set.tools = must(grammar::walk_tools(must(parse_json(tools)).as_array(), warnings));
  auto made = must(grammar::tool_grammar(set, *Vocabulary::of_bytes()));
  auto matcher = must(grammar::Matcher::compile(Vocabulary::of_bytes(), grammar::Notation::lark, made.lark));
  return grammar::LazyMatcher(std::move(matcher), std::move(made.triggers), {.triggers_end_reasoning = true});
}

class RunSteeringTest : public testing::Test {
 protected:
  RunSteeringTest() {
    plan_.bytes = [](Token token) { return Vocabulary::of_bytes()->bytes(token); };
    plan_.vocabulary = Vocabulary::of_bytes();
  }

  void reasons(bool open) {
    plan_.markers.emplace();
    plan_.reasoning_open = open;
    plan_.closer = Vocabulary::of_bytes()->tokenize("</think>");
  }

  // What comes out when the model wants to write `wish`: a byte that is not allowed is skipped. Forced text
  // is taken as it comes, and as much of the wish as it equals is used up.
  std::string play(std::string_view wish) {
    if (!steering_) steering_.emplace(std::move(plan_), masks_);
    std::string out;
    while (!wish.empty() && !steering_->complete()) {
      steering_->prepare();
      const Token token = static_cast<unsigned char>(wish.front());
      wish.remove_prefix(1);
      const auto mask = must(steering_->mask());
      const bool allowed =
          mask.empty() || (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1U) != 0;
      if (!allowed || !must(steering_->accept(token))) continue;
      out += static_cast<char>(token);
      for (const Token forced : steering_->forced()) {
        const auto byte = Vocabulary::of_bytes()->bytes(forced);
        out += byte;
        if (wish.starts_with(byte)) wish.remove_prefix(byte.size());
      }
    }
    return out;
  }
  bool may_end() {
    const auto mask = must(steering_->mask());
    return mask.empty() || (mask[255 / 32] >> (255 % 32) & 1U) != 0;
  }

  MaskThread masks_;
  SteeringPlan plan_;
  std::optional<RunSteering> steering_;
};

TEST_F(RunSteeringTest, FreeTextStaysAsItIs) {
  EXPECT_EQ(play("anything {at} all"), "anything {at} all");
  EXPECT_TRUE(may_end());
}

TEST_F(RunSteeringTest, AConstraintKeepsOnlyWhatFits) {
  plan_.constraint = schema(R"({"type":"integer"})");
  EXPECT_EQ(play("about 42 or so"), "42");
  EXPECT_TRUE(may_end());
}

TEST_F(RunSteeringTest, TheAnswerCannotEndBeforeItsConstraintIsSatisfied) {
  plan_.constraint = schema(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})");
  play(R"({"a")");
  EXPECT_FALSE(may_end());
}

TEST_F(RunSteeringTest, ForcedTextComesWithoutBeingWished) {
  plan_.constraint = schema(
      R"({"type":"object","properties":{"name":{"const":"fixed"}},"required":["name"],"additionalProperties":false})");
  EXPECT_EQ(play("{"), R"({"name": "fixed"})");
  EXPECT_GT(steering_->report().forced_tokens, 10);
}

TEST_F(RunSteeringTest, WithoutForcedTokensEveryTokenIsSampled) {
  plan_.take_forced = false;
  plan_.constraint = schema(R"({"const":"fixed"})");
  EXPECT_EQ(play("\"f"), "\"f");
  EXPECT_EQ(steering_->report().forced_tokens, 0);
}

TEST_F(RunSteeringTest, B27ThinkingStaysFreeAndTheConstraintBeginsBehindIt) {
  reasons(true);
  plan_.constraint = schema(R"({"type":"integer"})");
  EXPECT_EQ(play("{is it 7?}</think>well 42"), "{is it 7?}</think>42");
  EXPECT_EQ(steering_->report().reasoning_tokens, 18);
}

TEST_F(RunSteeringTest, WhereThinkingIsClosedTheConstraintHoldsFromTheFirstToken) {
  reasons(false);
  plan_.constraint = schema(R"({"type":"string"})");
  EXPECT_EQ(play("<think>\"<think>a\""), "\"<think>a\"");
}

TEST_F(RunSteeringTest, ABudgetClosesReasoning) {
  reasons(true);
  plan_.thinking_budget = 3;
  EXPECT_EQ(play("abcdefg"), "abc</think>defg");
}

TEST_F(RunSteeringTest, B50ABudgetOfThreeTokensEndsReasoningBehindThree) {
  // The model thinks "a b c d", a word a token.
  plan_.bytes = [](Token token) -> std::string_view {
    if (token == 'b') return " b";
    if (token == 'c') return " c";
    if (token == 'd') return " d";
    return Vocabulary::of_bytes()->bytes(token);
  };
  reasons(true);
  plan_.thinking_budget = 3;
  EXPECT_EQ(play("abcd"), "abc</think>d") << "the fourth word is the answer's first";
  EXPECT_EQ(steering_->report().reasoning_tokens, 3 + static_cast<int>(std::string_view("</think>").size()));
}

TEST_F(RunSteeringTest, ABudgetWaitsForTheEndOfACharacter) {
  reasons(true);
  plan_.thinking_budget = 3;
  EXPECT_EQ(play("ab\xc3\xa9z"), "ab\xc3\xa9</think>z");
}

TEST_F(RunSteeringTest, ABudgetLetsACloserThatHasBegunFinish) {
  reasons(true);
  plan_.thinking_budget = 3;
  EXPECT_EQ(play("ab</think>x"), "ab</think>x");
}

TEST_F(RunSteeringTest, AReopenedBlockHasANewBudget) {
  reasons(true);
  plan_.thinking_budget = 3;
  EXPECT_EQ(play("abc!<think>defg"), "abc</think>!<think>def</think>g");
}

TEST_F(RunSteeringTest, EndlessRepetitionEndsFreeText) {
  std::string wish;
  for (int i = 0; i < 400; ++i) wish += "the same again. ";
  EXPECT_LT(play(wish).size(), wish.size());
  EXPECT_TRUE(steering_->complete());
  EXPECT_TRUE(steering_->report().repetition);
}

TEST_F(RunSteeringTest, B26RepetitionOfAnAnswerWithAFormGoesOn) {
  plan_.constraint = schema(R"({"type":"string"})");
  std::string wish = "\"";
  while (wish.size() < 20'000) wish += "the same again. ";
  wish += '"';
  EXPECT_EQ(play(wish), wish);
  EXPECT_FALSE(steering_->report().repetition);
}

TEST_F(RunSteeringTest, WithoutGuardsRepetitionGoesOn) {
  plan_.guard_repetition = false;
  std::string wish;
  for (int i = 0; i < 400; ++i) wish += "the same again. ";
  EXPECT_EQ(play(wish), wish);
}

TEST_F(RunSteeringTest, ACallIsHeldToItsToolOnceItBegins) {
  plan_.calls = calls(
      R"([{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],)"
      R"("additionalProperties":false}}])");
  EXPECT_EQ(play("Let me see. <tool_call>\n{\"name\": \"sub\", \"arguments\": {\"b\": x1}}\n</tool_call>")
                .substr(0, 23),
            "Let me see. <tool_call>");
  const std::string out = play("1}}\n</tool_call>");
  (void)out;
  EXPECT_TRUE(may_end());
}

TEST_F(RunSteeringTest, TextBesideCallsStaysFree) {
  plan_.calls = calls(R"([{"name":"ping","parameters":{"type":"object"}}])");
  EXPECT_EQ(play("nothing {\"to\": call} <tool"), "nothing {\"to\": call} <tool");
}

}  // namespace
}  // namespace gezel::worker
