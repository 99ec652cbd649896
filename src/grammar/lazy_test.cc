#include "grammar/lazy.h"

#include <gmock/gmock.h>

#include "grammar/constraint.h"
#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using State = LazyMatcher::State;
using testing::must;

// Bytes, then words, then control tokens, then the end.
struct Words {
  std::vector<std::string> texts;
  std::size_t controls = 0;  // how many of the last, before the end
  std::shared_ptr<const Vocabulary> vocabulary;

  Token operator()(std::string_view text) const {
    for (std::size_t i = texts.size(); i-- > 0;) {
      if (texts[i] == text) return static_cast<Token>(i);
    }
    return -1;
  }
};

Words words(const std::vector<std::string>& plain, const std::vector<std::string>& controls = {}) {
  Words made;
  for (int byte = 0; byte < 255; ++byte) made.texts.emplace_back(1, static_cast<char>(byte));
  made.texts.insert(made.texts.end(), plain.begin(), plain.end());
  made.texts.insert(made.texts.end(), controls.begin(), controls.end());
  made.texts.emplace_back("<end>");
  made.controls = controls.size() + 1;
  VocabularySource source;
  source.size = static_cast<int>(made.texts.size());
  source.token = [&](Token token) {
    const auto index = static_cast<std::size_t>(token);
    return TokenText{made.texts[index], index + made.controls >= made.texts.size()};
  };
  source.end_of_generation = {source.size - 1};
  source.tokenize = [](std::string_view text) {
    std::vector<Token> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  };
  made.vocabulary = must(Vocabulary::create(source));
  return made;
}

struct Sleeper {
  Words known;
  LazyMatcher lazy;

  // One token; its text, unless all of it is reasoning.
  bool take(std::string_view text, bool reasoning = false) {
    const Token token = known(text);
    EXPECT_GE(token, 0) << text;
    const auto taken = lazy.accept(token, text, reasoning ? text.size() : 0);
    EXPECT_TRUE(taken) << text << ": " << (taken ? "" : taken.error().message);
    return taken.value_or(false);
  }
  void bytes(std::string_view text, bool reasoning = false) {
    for (const char c : text) ASSERT_TRUE(take(std::string_view(&c, 1), reasoning)) << text;
  }
  bool allows(std::string_view text) {
    std::vector<std::uint32_t> mask(known.vocabulary->mask_words());
    EXPECT_TRUE(lazy.compute_mask(mask));
    const auto token = static_cast<unsigned>(known(text));
    return (mask[token / 32] >> (token % 32) & 1) != 0;
  }
  std::string forced() {
    std::string text;
    for (const Token token : lazy.forced()) text += known.vocabulary->bytes(token);
    return text;
  }
};

Sleeper sleeper(std::string_view dialect, const LazyOptions& options = {},
                const Words& known = words({"ll>\n", "<tool_call>", "<tool_call>x"})) {
  ToolSet set;
  std::vector<std::string> warnings;
  set.tools = must(walk_tools(
      must(
          parse_json(
              R"([{"name":"ping"},{"name":"add","parameters":{"properties":{"a":{"type":"integer"}},"required":["a"]}}])"))
          .as_array(),
      warnings));
  set.dialect = dialect;
  set.parallel = options.parallel;
  const auto grammar = must(tool_grammar(set, *known.vocabulary));
  auto matcher = must(compile({ConstraintKind::tools, tool_set_text(set), false}, known.vocabulary));
  return {known, LazyMatcher(std::move(matcher), grammar.triggers, options)};
}

TEST(Lazy, SleepsThroughText) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes("Some text with < and <tool and {\"name\": 1}");
  EXPECT_EQ(sleeping.lazy.state(), State::asleep);
  EXPECT_TRUE(sleeping.allows("x"));
  EXPECT_TRUE(sleeping.allows("<end>"));
  EXPECT_EQ(sleeping.forced(), "");
}

TEST(Lazy, WakesAtATriggerAndConstrains) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes("Hello <tool_call>");
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
  EXPECT_FALSE(sleeping.allows("x"));
  EXPECT_TRUE(sleeping.allows("{"));
  sleeping.bytes("{");
  EXPECT_EQ(sleeping.forced(), "\"name\": \"");
  EXPECT_FALSE(sleeping.allows("<end>"));
}

TEST(Lazy, SleepsAgainWhenTheEnvelopeIsComplete) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes("<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(sleeping.lazy.state(), State::asleep);
  sleeping.bytes(" and <tool_call>");
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
}

TEST(Lazy, OneCallOnlyEndsTheAnswer) {
  auto sleeping = sleeper("hermes", {.parallel = false});
  sleeping.bytes("<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(sleeping.lazy.state(), State::finished);
  EXPECT_FALSE(sleeping.allows("x"));
  EXPECT_TRUE(sleeping.allows("<end>"));
  EXPECT_FALSE(sleeping.lazy.accept('x', "x"));
}

TEST(Lazy, ATokenThatCompletesATriggerIsCheckedWithItsSurplus) {
  auto sleeping = sleeper("hermes");
  EXPECT_FALSE(sleeping.take("<tool_call>x"));
  EXPECT_EQ(sleeping.lazy.state(), State::asleep);
  EXPECT_FALSE(sleeping.allows("<tool_call>x"));
  EXPECT_TRUE(sleeping.allows("<tool_call>"));
  sleeping.bytes("a");
  EXPECT_TRUE(sleeping.allows("<tool_call>x"));
  EXPECT_FALSE(sleeping.take("<tool_call>x"));
  EXPECT_TRUE(sleeping.take("<tool_call>"));
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
}

TEST(Lazy, SurplusIsPartOfTheCall) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes("text <tool_ca");
  EXPECT_TRUE(sleeping.take("ll>\n"));
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
  sleeping.bytes("{\"name\": \"ping\"");
}

TEST(Lazy, TriggersMaySpanAnyTokens) {
  const std::string text = "see <tool_call>\n{";
  for (std::size_t cut = 1; cut + 1 < text.size(); ++cut) {
    auto sleeping = sleeper("hermes", {}, words({text.substr(0, cut), text.substr(cut)}));
    EXPECT_TRUE(sleeping.take(text.substr(0, cut)));
    EXPECT_TRUE(sleeping.take(text.substr(cut)));
    EXPECT_EQ(sleeping.lazy.state(), State::awake) << cut;
    EXPECT_EQ(sleeping.forced(), "\"name\": \"");
  }
}

TEST(Lazy, ReasoningDoesNotWake) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes("I could write <tool_call>", true);
  EXPECT_EQ(sleeping.lazy.state(), State::asleep);
  sleeping.bytes("<tool_", true);
  sleeping.bytes("call>");
  EXPECT_EQ(sleeping.lazy.state(), State::asleep);
  sleeping.bytes("<tool_call>");
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
}

TEST(Lazy, ReasoningMayEndInsideAToken) {
  auto sleeping = sleeper("hermes", {}, words({"</think><tool_call>", "</think><tool_"}));
  auto inside = sleeper("hermes", {}, sleeping.known);
  EXPECT_TRUE(sleeping.lazy.accept(sleeping.known("</think><tool_call>"), "</think><tool_call>", 8).value());
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
  EXPECT_TRUE(inside.lazy.accept(inside.known("</think><tool_"), "</think><tool_", 8).value());
  inside.bytes("call>");
  EXPECT_EQ(inside.lazy.state(), State::awake);
}

TEST(Lazy, ATriggerInReasoningWakesWhereItEndsReasoning) {
  auto sleeping = sleeper("hermes", {.triggers_end_reasoning = true});
  sleeping.bytes("thinking <tool_call>", true);
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
}

TEST(Lazy, ControlTokensAreRecognisedById) {
  const auto known = words({}, {"[TOOL_CALLS]", "[ARGS]"});
  auto spelled = sleeper("mistral-args", {}, known);
  spelled.bytes("[TOOL_CALLS]");
  EXPECT_EQ(spelled.lazy.state(), State::asleep);
  auto sleeping = sleeper("mistral-args", {}, known);
  sleeping.bytes("text ");
  EXPECT_TRUE(sleeping.take("[TOOL_CALLS]"));
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
  EXPECT_TRUE(sleeping.allows("p"));
  EXPECT_FALSE(sleeping.allows("x"));
  sleeping.bytes("ping");
  EXPECT_TRUE(sleeping.allows("[ARGS]"));
  EXPECT_TRUE(sleeping.take("[ARGS]"));
  sleeping.bytes("{}");
  EXPECT_EQ(sleeping.lazy.state(), State::asleep);
}

TEST(Lazy, BareCallsWakeOnlyAtTheBeginning) {
  auto first = sleeper("llama-json");
  first.bytes(" {\"name\"");
  EXPECT_EQ(first.lazy.state(), State::awake);
  auto later = sleeper("llama-json");
  later.bytes("It is {\"name\"");
  EXPECT_EQ(later.lazy.state(), State::asleep);
  auto after_reasoning = sleeper("llama-json");
  after_reasoning.bytes("hmm", true);
  after_reasoning.bytes("\n{\"name\"");
  EXPECT_EQ(after_reasoning.lazy.state(), State::awake);
}

TEST(Lazy, TriggersWithNamesWakeForThoseNamesOnly) {
  auto sleeping = sleeper("function-tag");
  sleeping.bytes("<function=nope> <function=ping>");
  EXPECT_EQ(sleeping.lazy.state(), State::awake);
}

TEST(Lazy, RollbackRestoresEveryState) {
  const std::string text =
      "ab <tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call> cd <tool_call>{\"name\": \"";
  auto straight = sleeper("hermes");
  std::vector<std::pair<State, std::string>> expected = {{State::asleep, ""}};
  for (const char c : text) {
    straight.bytes(std::string_view(&c, 1));
    expected.emplace_back(straight.lazy.state(), straight.forced());
  }
  auto moving = sleeper("hermes");
  std::mt19937 random(3);
  std::size_t at = 0;
  for (int round = 0; round < 300; ++round) {
    const auto back = std::min<std::size_t>(at, random() % 40);
    ASSERT_TRUE(moving.lazy.rollback(back));
    at -= back;
    EXPECT_EQ(std::pair(moving.lazy.state(), moving.forced()), expected[at]) << at;
    const auto forward = std::min<std::size_t>(text.size() - at, random() % 50);
    moving.bytes(std::string_view(text).substr(at, forward));
    at += forward;
    EXPECT_EQ(std::pair(moving.lazy.state(), moving.forced()), expected[at]) << at;
  }
}

TEST(Lazy, AGrammarThatFailsIsGivenUp) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes("<tool_call>");
  EXPECT_TRUE(sleeping.take("x"));
  EXPECT_EQ(sleeping.lazy.state(), State::failed);
  EXPECT_FALSE(sleeping.lazy.failure().empty());
  EXPECT_TRUE(sleeping.allows("x"));
  EXPECT_TRUE(sleeping.allows("<end>"));
  EXPECT_EQ(sleeping.forced(), "");
  sleeping.bytes(" <tool_call>x");
  EXPECT_EQ(sleeping.lazy.state(), State::failed);
}

TEST(Lazy, RollbackIsBounded) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes(std::string(LazyMatcher::kMostUndo + 10, 'x'));
  EXPECT_TRUE(sleeping.lazy.rollback(LazyMatcher::kMostUndo));
  EXPECT_FALSE(sleeping.lazy.rollback(1));
}

TEST(Lazy, RollbackAllowsARefusedTokenAgain) {
  auto sleeping = sleeper("hermes");
  sleeping.bytes("a");
  EXPECT_FALSE(sleeping.take("<tool_call>x"));
  ASSERT_TRUE(sleeping.lazy.rollback(1));
  EXPECT_TRUE(sleeping.allows("<tool_call>x"));
}

TEST(Lazy, MaskHasNoBitsBeyondTheVocabulary) {
  auto sleeping = sleeper("hermes");
  std::vector<std::uint32_t> mask(sleeping.known.vocabulary->mask_words());
  ASSERT_TRUE(sleeping.lazy.compute_mask(mask));
  int bits = 0;
  for (const auto word : mask) bits += std::popcount(word);
  EXPECT_EQ(bits, sleeping.known.vocabulary->size());
}

}  // namespace
}  // namespace gezel::grammar
