#include "grammar/matcher.h"

#include <gmock/gmock.h>

#include <thread>

#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using ::testing::HasSubstr;
using testing::must;
using testing::of_lark;
using testing::of_schema;
using testing::random_text;

const std::string kWeather =
    R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},
                                 "required":["city"],"additionalProperties":false})";

std::string text_of(const Matcher& matcher, const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += matcher.vocabulary().bytes(token);
  return text;
}

bool allows(Matcher& matcher, Token token) {
  std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
  EXPECT_TRUE(matcher.compute_mask(mask));
  return (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

void feed(Matcher& matcher, std::string_view text) {
  for (const char c : text) ASSERT_TRUE(matcher.consume(static_cast<unsigned char>(c))) << matcher.error();
}

TEST(Matcher, LetsThroughWhatTheSchemaAllows) {
  const auto matcher = of_schema(kWeather);
  EXPECT_TRUE(accepts(matcher, R"({"city": "Oslo"})"));
  EXPECT_TRUE(accepts(matcher, R"({"city": "Oslo", "days": 3})"));
  EXPECT_TRUE(accepts(matcher, R"({"city": "\"ÅØ🦙\n"})"));
  EXPECT_FALSE(accepts(matcher, R"({"days": 3})"));
  EXPECT_FALSE(accepts(matcher, R"({"city": 3})"));
  EXPECT_FALSE(accepts(matcher, R"({"city": "Oslo", "more": 3})"));
  EXPECT_FALSE(accepts(matcher, R"({"city": "Oslo")"));
}

TEST(Matcher, WhiteSpaceIsOneBlankBehindSeparatorsAndNothingElse) {
  const auto matcher = of_schema(R"({"type":"object"})");
  EXPECT_TRUE(accepts(matcher, R"({"a": [1, 2], "b": {}})"));
  EXPECT_FALSE(accepts(matcher, R"({"a":1})"));
  EXPECT_FALSE(accepts(matcher, R"({ "a": 1})"));
  EXPECT_FALSE(accepts(matcher, "{\"a\": 1,\n\"b\": 2}"));
  EXPECT_FALSE(accepts(matcher, R"( {"a": 1})"));
  EXPECT_FALSE(accepts(matcher, R"({"a": 1} )"));
}

TEST(Matcher, EveryRandomTextIsValidJson) {
  std::mt19937 random(1);
  const auto matcher = of_schema(kWeather);
  for (int round = 0; round < 200; ++round) {
    const auto text = random_text(matcher, random);
    if (!text) continue;
    const auto value = parse_json(*text);
    ASSERT_TRUE(value) << *text;
    EXPECT_TRUE(value->as_object().at("city").is_string());
  }
}

TEST(Matcher, ForcedTokensAreWhatMustCome) {
  auto matcher = of_schema(kWeather);
  EXPECT_EQ(text_of(matcher, matcher.forced()), R"({"city": ")");
  feed(matcher, R"({"city": "Oslo", )");
  EXPECT_EQ(text_of(matcher, matcher.forced()), R"("days": )");
  feed(matcher, R"("days": 1)");
  EXPECT_TRUE(matcher.forced().empty());
}

TEST(Matcher, NothingIsForcedAtTheEnd) {
  auto matcher = of_lark("start: \"ab\"\n");
  EXPECT_EQ(text_of(matcher, matcher.forced()), "ab");
  feed(matcher, "ab");
  EXPECT_TRUE(matcher.forced().empty());
  EXPECT_TRUE(matcher.stopped());
}

TEST(Matcher, OnlyTheEndIsAllowedWhenNothingMoreCanCome) {
  auto matcher = of_lark("start: \"a\"\n");
  EXPECT_FALSE(allows(matcher, 255));
  feed(matcher, "a");
  EXPECT_TRUE(matcher.accepting());
  EXPECT_TRUE(allows(matcher, 255));
  EXPECT_FALSE(allows(matcher, 'a'));
}

TEST(Matcher, AForbiddenTokenIsAnErrorThatStays) {
  auto matcher = of_schema(kWeather);
  const auto consumed = matcher.consume('x');
  ASSERT_FALSE(consumed);
  EXPECT_EQ(consumed.error().code, "constraint_failed");
  EXPECT_FALSE(matcher.error().empty());
  EXPECT_TRUE(matcher.stopped());
  std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
  EXPECT_FALSE(matcher.compute_mask(mask));
  EXPECT_FALSE(matcher.rollback(1));
}

TEST(Matcher, TokensOutsideTheVocabularyAreErrors) {
  for (const Token token : {-1, 256, 1 << 30}) {
    auto matcher = of_schema(kWeather);
    EXPECT_FALSE(matcher.consume(token)) << token;
  }
}

TEST(Matcher, RollbackRestoresTheState) {
  std::mt19937 random(2);
  const auto fresh = of_schema(kWeather);
  const std::string text = R"({"city": "Oslo", "days": 3})";
  auto matcher = fresh.clone();
  std::size_t at = 0;
  for (int round = 0; round < 300; ++round) {
    const auto back = random() % (at + 1);
    ASSERT_TRUE(matcher.rollback(back));
    at -= back;
    const auto forward = random() % (text.size() - at + 1);
    feed(matcher, std::string_view(text).substr(at, forward));
    at += forward;
    auto expected = fresh.clone();
    feed(expected, std::string_view(text).substr(0, at));
    std::vector<std::uint32_t> mask(8);
    std::vector<std::uint32_t> wanted(8);
    ASSERT_TRUE(matcher.compute_mask(mask));
    ASSERT_TRUE(expected.compute_mask(wanted));
    ASSERT_EQ(mask, wanted) << at;
    ASSERT_EQ(matcher.accepting(), expected.accepting()) << at;
  }
}

TEST(Matcher, CannotRollBackFurtherThanItsBeginning) {
  auto matcher = of_schema(kWeather);
  feed(matcher, "{");
  EXPECT_FALSE(matcher.rollback(2));
}

TEST(Matcher, AllowedCountsWithoutConsuming) {
  auto matcher = of_schema(kWeather);
  const std::vector<Token> tokens = {'{', '"', 'c', 'x'};
  EXPECT_EQ(matcher.allowed(tokens), 3U);
  EXPECT_EQ(matcher.allowed(tokens), 3U);
  EXPECT_EQ(matcher.allowed({}), 0U);
}

TEST(Matcher, ClonesGoTheirOwnWays) {
  auto first = of_schema(kWeather);
  feed(first, R"({"city": ")");
  auto second = first.clone();
  feed(first, R"(Oslo"})");
  EXPECT_TRUE(first.stopped());
  EXPECT_FALSE(second.stopped());
  feed(second, R"(Bergen", "days": 1})");
  EXPECT_TRUE(second.accepting());
}

TEST(Matcher, ClonesMayBeUsedOnSeveralThreadsAtOnce) {
  const auto fresh = of_schema(kWeather);
  std::vector<std::thread> threads;
  std::vector<int> valid(4);
  for (std::size_t i = 0; i < valid.size(); ++i) {
    threads.emplace_back([&, i, matcher = fresh.clone()] {
      std::mt19937 random(static_cast<unsigned>(i));
      for (int round = 0; round < 20; ++round) {
        const auto text = random_text(matcher, random);
        valid[i] += !text || parse_json(*text) ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(valid, ::testing::Each(20));
}

TEST(Matcher, NamesWhatDoesNotCompile) {
  const auto bytes = Vocabulary::of_bytes();
  const auto lark = Matcher::compile(bytes, Notation::lark, "start: missing\n");
  ASSERT_FALSE(lark);
  EXPECT_EQ(lark.error().code, "constraint-unusable");
  EXPECT_THAT(lark.error().message, HasSubstr("missing"));
  EXPECT_FALSE(Matcher::compile(bytes, Notation::json_schema, "{"));
  EXPECT_FALSE(Matcher::compile(bytes, Notation::lark, std::string("start: \"a\0b\"\n", 13)));
  EXPECT_FALSE(check_grammar(*bytes, Notation::json_schema, R"({"not":{}})"));
  EXPECT_TRUE(check_grammar(*bytes, Notation::json_schema, R"({"type":"string"})"));
}

TEST(Matcher, ErrorsCarryNoDumps) {
  const auto failed = Matcher::compile(Vocabulary::of_bytes(), Notation::json_schema, R"({"not":{}})");
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, ::testing::Not(HasSubstr("non-verbose")));
  auto matcher = of_schema(kWeather);
  EXPECT_FALSE(matcher.consume('x'));
  EXPECT_THAT(matcher.error(), ::testing::Not(HasSubstr("<")));
}

TEST(Matcher, LimitsAreObserved) {
  MatcherLimits limits;
  limits.grammar_size = 10;
  EXPECT_FALSE(Matcher::compile(Vocabulary::of_bytes(), Notation::json_schema, kWeather, limits));
}

TEST(Matcher, ControlTokensAreReachedByIdOnly) {
  VocabularySource source;
  source.size = 257;
  source.token = [](Token token) {
    static const std::string bytes = [] {
      std::string all(255, '\0');
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
      return all;
    }();
    if (token >= 255) return TokenText{token == 255 ? "<end>" : "[CALL]", true};
    return TokenText{std::string_view(bytes).substr(static_cast<std::size_t>(token), 1), false};
  };
  source.end_of_generation = {255};
  source.tokenize = [](std::string_view text) {
    std::vector<Token> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  };
  auto vocabulary = must(Vocabulary::create(source));
  auto matcher = must(Matcher::compile(vocabulary, Notation::lark, "start: <[256]> \"a\" | /.+/\n"));
  EXPECT_TRUE(allows(matcher, 256));
  EXPECT_TRUE(allows(matcher, '['));
  auto spelled = matcher.clone();
  feed(spelled, "[CALL]");
  EXPECT_FALSE(allows(spelled, 256));
  ASSERT_TRUE(matcher.consume(256));
  EXPECT_EQ(text_of(matcher, matcher.forced()), "a");
}

}  // namespace
}  // namespace gezel::grammar
