#include "turn/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace gezel::turn {
namespace {

struct Result {
  std::string text;
  std::optional<int> matched;
  bool operator==(const Result&) const = default;
};

Result run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings matcher(stops);
  Result result;
  for (const std::string& piece : pieces) {
    auto [text, matched] = matcher.feed(piece);
    result.text += text;
    result.matched = matched;
  }
  result.text += matcher.finish();
  return result;
}

// The definition, by trying every end and every stop string.
Result reference(const std::vector<std::string>& stops, std::string_view text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string_view so_far = text.substr(0, end);
    std::optional<int> best;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !so_far.ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[static_cast<std::size_t>(*best)].size())
        best = static_cast<int>(i);
    }
    if (best) return {std::string(text.substr(0, end - stops[static_cast<std::size_t>(*best)].size())), best};
  }
  return {std::string(text), std::nullopt};
}

// The longest end of `text` that begins a stop string.
std::size_t must_withhold(const std::vector<std::string>& stops, std::string_view text) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t size = 1; size < stop.size() && size <= text.size(); ++size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) longest = std::max(longest, size);
    }
  }
  return longest;
}

std::string random_text(std::mt19937& random, std::size_t size, unsigned letters) {
  std::string text(size, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % letters);
  return text;
}

TEST(StopStrings, TextEndsBeforeTheMatch) {
  EXPECT_EQ(run({"END"}, {"The END. More"}), (Result{"The ", 0}));
}

TEST(StopStrings, B07AMatchMayBeSpreadOverPieces) {
  EXPECT_EQ(run({"END"}, {"The E", "N", "D x"}), (Result{"The ", 0}));
}

TEST(StopStrings, WithoutAMatchAllTextComesOut) {
  EXPECT_EQ(run({"END"}, {"The EN", "d E"}), (Result{"The ENd E", std::nullopt}));
  EXPECT_EQ(run({}, {"a", "b"}), (Result{"ab", std::nullopt}));
}

TEST(StopStrings, AnEmptyStopStringMatchesNothing) {
  EXPECT_EQ(run({"", "b"}, {"ab"}), (Result{"a", 1}));
  EXPECT_EQ(run({""}, {"", "ab"}), (Result{"ab", std::nullopt}));
}

TEST(StopStrings, WhatMayBecomeAMatchIsWithheldAndReleasedOtherwise) {
  StopStrings matcher({"\nUser:"});
  EXPECT_EQ(matcher.feed("Hi\nUs").text, "Hi");
  EXPECT_EQ(matcher.withheld(), 3u);
  EXPECT_EQ(matcher.feed("ual\n").text, "\nUsual");
  EXPECT_EQ(matcher.withheld(), 1u);
  EXPECT_EQ(matcher.finish(), "\n");
  EXPECT_EQ(matcher.withheld(), 0u);
}

TEST(StopStrings, APartialMatchFallsBackToAShorterOne) {
  EXPECT_EQ(run({"aab"}, {"aa", "a", "ab"}), (Result{"aa", 0}));
  EXPECT_EQ(run({"abab!"}, {"ababab!"}), (Result{"ab", 0}));
}

TEST(StopStrings, TheOneThatCompletesFirstWins) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}), (Result{"xa", 1}));
  EXPECT_EQ(run({"ab", "abc"}, {"abc"}), (Result{"", 0}));
}

TEST(StopStrings, OfThoseThatCompleteTogetherTheLongestWins) {
  EXPECT_EQ(run({"c", "abc", "bc"}, {"xabc"}), (Result{"x", 1}));
  EXPECT_EQ(run({"q", "bc", "bc"}, {"abc"}), (Result{"a", 1}));
}

TEST(StopStrings, NothingComesAfterAMatch) {
  StopStrings matcher({"b"});
  EXPECT_EQ(matcher.feed("ab").matched, 0);
  const auto later = matcher.feed("cab");
  EXPECT_EQ(later.text, "");
  EXPECT_EQ(later.matched, 0);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStrings, CharactersStayWhole) {
  StopStrings matcher({"é!"});
  EXPECT_EQ(matcher.feed("aé").text, "a");
  EXPECT_EQ(matcher.feed("è").text, "éè");
}

TEST(StopStrings, AnySplitGivesTheResultOfTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    const unsigned letters = 1 + random() % 3;
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = random_text(random, random() % 6, letters);
    const std::string text = random_text(random, random() % 30, letters + random() % 2);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, random() % 5));
      at += pieces.back().size();
    }
    EXPECT_EQ(run(stops, pieces), reference(stops, text)) << text;
  }
}

TEST(StopStrings, NoMoreAndNoLessIsWithheldThanNecessary) {
  std::mt19937 random(6);
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = random_text(random, 1 + random() % 6, 2);
    StopStrings matcher(stops);
    std::string fed, emitted;
    for (int i = 0; i < 10; ++i) {
      const std::string piece = random_text(random, random() % 4, 3);
      fed += piece;
      const auto output = matcher.feed(piece);
      emitted += output.text;
      if (output.matched) break;
      EXPECT_EQ(emitted, fed.substr(0, fed.size() - must_withhold(stops, fed)));
      EXPECT_EQ(matcher.withheld(), fed.size() - emitted.size());
    }
  }
}

TEST(StopStrings, LongStopStringsAndSmallPiecesStayLinear) {
  // Quadratic work would take minutes here.
  StopStrings matcher({std::string(200'000, 'a') + "b"});
  std::string text;
  for (int i = 0; i < 600'000; ++i) text += matcher.feed("a").text;
  EXPECT_EQ(matcher.withheld(), 200'000u);
  const auto output = matcher.feed("b");
  EXPECT_EQ(output.matched, 0);
  EXPECT_EQ(text.size() + output.text.size(), 400'000u);
}

}  // namespace
}  // namespace gezel::turn
