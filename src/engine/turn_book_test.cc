#include "engine/turn_book.h"

#include <gtest/gtest.h>

namespace gezel::engine {
namespace {

Usage turn(CachedTokens from, std::int64_t prompt = 100, std::int64_t completion = 10) {
  Usage usage;
  usage.prompt_tokens = prompt;
  usage.completion_tokens = completion;
  usage.cached_from = from;
  usage.cached_tokens = from.slot + from.host + from.disk + from.coalesced;
  return usage;
}

const Usage kMiss = turn({});
const Usage kHit = turn({.slot = 50, .host = 0, .disk = 0, .coalesced = 0});

TEST(TurnBook, TheRateIsThatOfTheLastTurns) {
  TurnBook book;
  EXPECT_EQ(book.figures().recent_hit_rate, 0);
  for (int i = 0; i < 10; ++i) book.record("", kMiss, 1, {});
  for (int i = 0; i < 40; ++i) book.record("", kHit, 1, {});
  for (int i = 0; i < 10; ++i) book.record("", kMiss, 1, {});
  const auto figures = book.figures();
  EXPECT_EQ(figures.hits, 40U);
  EXPECT_EQ(figures.misses, 20U);
  EXPECT_DOUBLE_EQ(figures.recent_hit_rate, 0.8);
  EXPECT_EQ(figures.prompt_tokens, 6'000U);
  EXPECT_EQ(figures.cached_tokens, 2'000U);
}

TEST(TurnBook, ATurnCountsForWhereMostOfItCameFrom) {
  TurnBook book;
  book.record("", turn({.slot = 10, .host = 20, .disk = 25, .coalesced = 0}), 1, {});
  book.record("", turn({.slot = 0, .host = 20, .disk = 25, .coalesced = 0}), 1, {});
  book.record("", turn({.slot = 0, .host = 1, .disk = 0, .coalesced = 90}), 1, {});
  book.record("", kMiss, 1, {});
  Usage untold;  // an engine that does not say where from
  untold.cached_tokens = 7;
  book.record("", untold, 1, {});
  const auto figures = book.figures();
  EXPECT_EQ(figures.memory, 2U);
  EXPECT_EQ(figures.disk, 1U);
  EXPECT_EQ(figures.prefix, 1U);
  EXPECT_EQ(figures.fresh, 1U);
}

TEST(TurnBook, SessionsAreWarmByTheirLastTurn) {
  TurnBook book;
  const WallTime begin{};
  book.record("a", turn({}, 100, 10), 1'000, begin);
  book.record("b", turn({}, 200, 20), 1'000, begin + Millis(1));
  book.record("a", turn({}, 300, 30), 1'000, begin + Millis(2));
  auto sessions = book.figures().sessions;
  ASSERT_EQ(sessions.size(), 2U);
  EXPECT_EQ(sessions[0].session, "a");
  EXPECT_EQ(sessions[0].tokens, 330);
  EXPECT_EQ(sessions[0].bytes, 330'000U);
  EXPECT_EQ(sessions[1].session, "b");
  book.forget("a");
  EXPECT_EQ(book.figures().sessions.size(), 1U);
  book.clear();
  EXPECT_EQ(book.figures().misses, 0U);
}

TEST(TurnBook, SessionsAreBounded) {
  TurnBook book;
  for (std::size_t i = 0; i < kMostWarmSessions + 5; ++i)
    book.record(std::to_string(i), kHit, 1, WallTime(Millis(static_cast<std::int64_t>(i))));
  const auto sessions = book.figures().sessions;
  EXPECT_EQ(sessions.size(), kMostWarmSessions);
  EXPECT_EQ(sessions.back().session, "5") << "the oldest went";
}

}  // namespace
}  // namespace gezel::engine
