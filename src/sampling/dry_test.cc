#include "sampling/dry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace gezel::sampling {
namespace {

// Tokens are letters: 'a' is 0. `pieces` gives other texts.
std::map<char, float> penalties(const std::string& history, DryParams params,
                                const std::map<char, std::string>& pieces = {}) {
  if (params.multiplier == 0) params.multiplier = 1;
  params.base = 2;
  Dry dry(params, [&](std::int32_t token) {
    const char letter = static_cast<char>('a' + token);
    const auto it = pieces.find(letter);
    return it == pieces.end() ? std::string(1, letter) : it->second;
  });
  for (const char c : history) dry.accept(c - 'a');
  std::map<char, float> out;
  for (const auto& [token, penalty] : dry.penalties()) out[static_cast<char>('a' + token)] = penalty;
  return out;
}

using Penalties = std::map<char, float>;

TEST(Dry, TheTokenThatWouldContinueARepetitionIsPenalised) {
  EXPECT_EQ(penalties("abcdxabc", {}), (Penalties{{'d', 2}}));  // length 3, allowed 2: 2^1
  EXPECT_EQ(penalties("abdxab", {}), (Penalties{{'d', 1}}));
  EXPECT_EQ(penalties("abcdxayc", {}), Penalties{});
}

TEST(Dry, TheLongestRepetitionCounts) {
  EXPECT_EQ(penalties("bcdyabcdxabc", {}), (Penalties{{'d', 2}}));
  EXPECT_EQ(penalties("bceyabcdxabc", {}), (Penalties{{'d', 2}, {'e', 1}}));
}

TEST(Dry, RepetitionsMayOverlap) {
  EXPECT_EQ(penalties("aaaa", {}), (Penalties{{'a', 2}}));
  EXPECT_EQ(penalties("ababab", {}), (Penalties{{'a', 4}}));
}

TEST(Dry, ShortRepetitionsAreAllowed) {
  EXPECT_EQ(penalties("abcdxabc", {.allowed_length = 3}), (Penalties{{'d', 1}}));
  EXPECT_EQ(penalties("abcdxabc", {.allowed_length = 4}), Penalties{});
}

TEST(Dry, TheWindowEndsWhereItIsAskedTo) {
  EXPECT_EQ(penalties("abcdxabc", {.penalty_last_n = 8}), (Penalties{{'d', 2}}));
  EXPECT_EQ(penalties("abcdxabc", {.penalty_last_n = 7}), (Penalties{{'d', 1}}));
  EXPECT_EQ(penalties("abcdxabc", {.penalty_last_n = 5}), Penalties{});
}

TEST(Dry, ABreakerLimitsTheRepetition) {
  EXPECT_EQ(penalties("abcdxabc", {.sequence_breakers = {"a"}}), (Penalties{{'d', 1}}));
  EXPECT_EQ(penalties("abcdxabc", {.sequence_breakers = {"b"}}), Penalties{});
  EXPECT_EQ(penalties("abcdxabc", {.sequence_breakers = {"c"}}), Penalties{});
  EXPECT_EQ(penalties("abcdxabc", {.sequence_breakers = {"x", "", "?"}}), (Penalties{{'d', 2}}));
}

TEST(Dry, ATokenThatHoldsABreakerIsNotPenalised) {
  EXPECT_EQ(penalties("abcdxabc", {.sequence_breakers = {"\n"}}, {{'d', "end\n"}}), Penalties{});
}

TEST(Dry, ABreakerMaySpanTokens) {
  // "x" ends with the breaker's beginning and "a" completes it, so nothing before "b" counts.
  const std::map<char, std::string> pieces = {{'x', "foo <|"}, {'a', "im|> bar"}};
  EXPECT_EQ(penalties("abcdxabc", {.sequence_breakers = {"<|im|>"}}, pieces), (Penalties{{'d', 1}}));
  EXPECT_EQ(penalties("abcdxabc", {.sequence_breakers = {"<|im|!"}}, pieces), (Penalties{{'d', 2}}));
}

TEST(Dry, PenaltiesStayFinite) {
  const auto result = penalties(std::string(5000, 'a'), {});
  ASSERT_EQ(result.size(), 1u);
  EXPECT_TRUE(std::isfinite(result.at('a')));
  EXPECT_GT(result.at('a'), 1e37f);
}

}  // namespace
}  // namespace gezel::sampling
