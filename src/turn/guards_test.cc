#include "turn/guards.h"

#include <gtest/gtest.h>

#include <random>

#include "turn/test_table.h"

namespace gezel::turn {
namespace {

std::string repeat(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

TEST(RambleLimits, EveryCaseOfTheTableHolds) {
  for_each_row("ramble_limits.jsonl", [](const json::object& row) {
    RambleSettings settings;
    settings.limit = static_cast<std::size_t>(int_or(row, "limit", 0));
    if (row.contains("after_call"))
      settings.after_call = static_cast<std::size_t>(int_or(row, "after_call", 0));
    settings.leaky = bool_or(row, "leaky", false);
    const auto limits = ramble_limits(settings);
    EXPECT_EQ(static_cast<std::int64_t>(limits.before_call), int_or(row, "before", 0));
    EXPECT_EQ(static_cast<std::int64_t>(limits.after_call), int_or(row, "after", 0));
    EXPECT_EQ(static_cast<std::int64_t>(limits.inside), int_or(row, "inside", 0));
  });
}

TEST(RambleLimits, LeakyFamiliesAreKnown) {
  EXPECT_TRUE(leaky_family("qwen3"));
  EXPECT_FALSE(leaky_family("mistral"));
}

// --- exact cycles

// The definition: the shortest period for which the text ends in enough copies.
std::size_t reference_period(const std::vector<std::uint32_t>& units, std::size_t chars_each,
                             std::size_t max_period) {
  for (std::size_t period = 1; period <= max_period; ++period) {
    std::size_t length = period;
    while (length < units.size() &&
           units[units.size() - 1 - length] == units[units.size() - 1 - length + period]) {
      ++length;
    }
    const std::size_t repeats = length / period;
    if (period <= units.size() && repeats >= kCycleRepeats && repeats * period * chars_each >= kCycleChars) {
      return period;
    }
  }
  return 0;
}

TEST(CycleDetector, FindsWhatTheDefinitionFinds) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t max_period = 1 + random() % 20, chars = 20 + random() % 100;
    std::vector<std::uint32_t> units;
    CycleDetector detector(max_period);
    for (int block = 0; block < 4 && !detector.found(); ++block) {
      std::vector<std::uint32_t> cycle(1 + random() % 24);
      for (auto& unit : cycle) unit = random() % 2;
      const std::size_t copies = 1 + random() % 40;
      for (std::size_t i = 0; i < copies * cycle.size() && !detector.found(); ++i) {
        units.push_back(cycle[i % cycle.size()]);
        detector.feed(units.back(), chars);
        ASSERT_EQ(detector.period(), reference_period(units, chars, max_period))
            << round << " " << units.size();
      }
    }
  }
}

TEST(CycleDetector, EightCopiesOf300CharactersAreACycle) {
  std::string line;
  for (int i = 0; i < 75; ++i) line += std::to_string(1000 + i);
  CycleDetector detector(kCyclePeriodChars);
  EXPECT_FALSE(detector.feed_text("Once. " + repeat(line, 7)));
  EXPECT_FALSE(detector.feed_text(line.substr(0, 299)));
  EXPECT_TRUE(detector.feed_text(line.substr(299)));
  EXPECT_EQ(detector.period(), 300u);
}

TEST(CycleDetector, FewerThan2400CharactersAreNone) {
  CycleDetector detector(kCyclePeriodChars);
  EXPECT_FALSE(detector.feed_text(repeat("ab", 1199)));
  EXPECT_TRUE(detector.feed_text("ab"));
}

TEST(CycleDetector, ATableIsNoCycle) {
  std::string table;
  for (int i = 0; i < 400; ++i) table += "| row " + std::to_string(i) + " | yes | no | - [ ] done |\n";
  CycleDetector detector(kCyclePeriodChars);
  EXPECT_FALSE(detector.feed_text(table));
}

TEST(CycleDetector, TokensCountWithTheirCharacters) {
  CycleDetector detector;
  for (int i = 0; i < 7 * 256; ++i) EXPECT_FALSE(detector.feed(static_cast<std::uint32_t>(i % 256), 5));
  bool found = false;
  for (int i = 0; i < 256; ++i) found = detector.feed(static_cast<std::uint32_t>(i), 5);
  EXPECT_TRUE(found);
}

TEST(CycleDetector, AnySplitFindsTheSame) {
  const std::string text = "Start. " + repeat("løs ↯ 🫐 og blåbær. ", 200) + "\xF0\x9F";
  CycleDetector whole(kCyclePeriodChars), bytes(kCyclePeriodChars);
  whole.feed_text(text);
  for (const char c : text) bytes.feed_text({&c, 1});
  EXPECT_EQ(whole.period(), 19u);
  EXPECT_EQ(bytes.period(), whole.period());
}

// --- trigrams

TEST(Trigrams, TheShareIsDistinctOverAll) {
  EXPECT_DOUBLE_EQ(distinct_trigrams("a b c d e f g h"), 1.0);
  // 16 words, 14 trigrams, 8 of them distinct.
  EXPECT_DOUBLE_EQ(distinct_trigrams("a b c d e f g h a b c d e f g h"), 8.0 / 14);
}

TEST(Trigrams, FewWordsAreNotJudged) {
  EXPECT_DOUBLE_EQ(distinct_trigrams(repeat("a b c d e f g ", 100)), 1.0);
  EXPECT_DOUBLE_EQ(distinct_trigrams(""), 1.0);
}

TEST(TrigramGuard, TriggersOnRepeatedSentences) {
  TrigramGuard guard;
  EXPECT_TRUE(guard.feed(repeat("I will now call the tool to read the file. ", 80)));
}

TEST(TrigramGuard, ProseIsFine) {
  TrigramGuard guard;
  std::string prose;
  for (int i = 0; i < 3000; ++i) prose += "word" + std::to_string(i * 7919 % 1013) + " ";
  EXPECT_FALSE(guard.feed(prose));
}

TEST(TrigramGuard, OnlyTheLastWindowCounts) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "word" + std::to_string(i) + " ";
  TrigramGuard guard;
  EXPECT_FALSE(guard.feed(text));
  EXPECT_TRUE(guard.feed(repeat("one two three four five six seven eight ", 70)));
}

TEST(TrigramGuard, AnySplitTriggersAtTheSamePlace) {
  std::string text;
  for (int i = 0; i < 600; ++i) text += "ørd" + std::to_string(i) + " ";
  text += repeat("én to tre fire fem seks syv åtte ", 100);
  const auto triggered_at = [&](std::size_t piece) {
    TrigramGuard guard;
    for (std::size_t at = 0; at < text.size(); ++at) {
      // The byte that triggers is found by feeding the rest of the piece bytewise into a copy.
      if (at % piece == 0) {
        TrigramGuard ahead = guard;
        if (ahead.feed(std::string_view(text).substr(at, piece))) {
          while (!guard.feed(std::string_view(text).substr(at, 1))) ++at;
          return at;
        }
        guard = ahead;
      }
    }
    return text.size();
  };
  const std::size_t expected = triggered_at(1);
  EXPECT_LT(expected, text.size());
  for (const std::size_t piece : {2u, 7u, 240u, 1000u}) EXPECT_EQ(triggered_at(piece), expected);
}

TEST(TrigramGuard, BrokenTextDoesNotGrowTheWindow) {
  TrigramGuard guard;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(guard.feed(std::string(10'000, '\x80')));
}

// --- fences

bool inside(std::string_view text) {
  FenceTracker whole, bytes;
  whole.feed(text);
  for (const char c : text) bytes.feed({&c, 1});
  EXPECT_EQ(whole.inside(), bytes.inside()) << text;
  return whole.inside();
}

TEST(FenceTracker, AFenceOpensAndCloses) {
  EXPECT_TRUE(inside("Here:\n```json\n{"));
  EXPECT_FALSE(inside("```json\n{}\n```\nDone"));
  EXPECT_TRUE(inside("~~~\nx"));
  EXPECT_FALSE(inside("   ```\nx\n  ```  \n"));
}

TEST(FenceTracker, WhatIsNoFence) {
  EXPECT_FALSE(inside("``\nx"));
  EXPECT_FALSE(inside("    ```\nx"));
  EXPECT_FALSE(inside("say ```\nx"));
  EXPECT_FALSE(inside("```inline``` code\nx"));
}

TEST(FenceTracker, OnlyItsOwnMarksCloseIt) {
  EXPECT_TRUE(inside("````\n```\n"));
  EXPECT_TRUE(inside("```\n~~~\n"));
  EXPECT_TRUE(inside("```\n``` js\n"));
  EXPECT_FALSE(inside("```\n`````\n"));
}

}  // namespace
}  // namespace gezel::turn
