#include "worker/window_check.h"

#include <gtest/gtest.h>

#include <limits>

namespace gezel::worker {
namespace {

using Kind = WindowVerdict::Kind;

TEST(WindowCheck, APromptWithRoomForAnAnswerFits) {
  EXPECT_EQ(check_window({.prompt = 1'000, .window = 2'048}).kind, Kind::fits);
  EXPECT_EQ(check_window({.prompt = 1'000, .answer = 1'048, .window = 2'048}).kind, Kind::fits);
  EXPECT_EQ(check_window({.prompt = 2'047, .answer = 1, .window = 2'048}).kind, Kind::fits);
}

TEST(WindowCheck, AnAnswerIsCutOnlyWhereNoLongerWindowCanBeHad) {
  const auto cut = check_window({.prompt = 1'000, .answer = 1'049, .window = 2'048});
  EXPECT_EQ(cut.kind, Kind::cut);
  EXPECT_EQ(cut.room, 1'048);
  const auto longer = check_window({.prompt = 1'000, .answer = 1'049, .window = 2'048, .possible = 2'049});
  EXPECT_EQ(longer.kind, Kind::longer);
  EXPECT_EQ(longer.needed, 2'049);
}

TEST(WindowCheck, WithoutALimitALeastAnswerMustFit) {
  EXPECT_EQ(check_window({.prompt = 1'792, .window = 2'048}).kind, Kind::fits);
  const auto over = check_window({.prompt = 1'793, .window = 2'048});
  EXPECT_EQ(over.kind, Kind::over);
  EXPECT_EQ(over.needed, 2'049);
  const auto longer = check_window({.prompt = 1'793, .window = 2'048, .possible = 8'192});
  EXPECT_EQ(longer.kind, Kind::longer);
  EXPECT_EQ(longer.needed, 2'049);
}

TEST(WindowCheck, AShortAnswerNeedsNoMoreRoomThanItIsLong) {
  EXPECT_EQ(check_window({.prompt = 2'040, .answer = 8, .window = 2'048}).kind, Kind::fits);
  EXPECT_EQ(check_window({.prompt = 2'041, .answer = 8, .window = 2'048}).kind, Kind::over);
}

TEST(WindowCheck, APromptThatIsTooLongTakesTheLongestAnswerThatAnyWindowHolds) {
  const auto longer =
      check_window({.prompt = 3'000, .answer = 1'000'000, .window = 2'048, .possible = 8'192});
  EXPECT_EQ(longer.kind, Kind::longer);
  EXPECT_EQ(longer.needed, 8'192);
  EXPECT_EQ(check_window({.prompt = 9'000, .answer = 8, .window = 2'048, .possible = 8'192}).kind,
            Kind::over);
}

TEST(WindowCheck, ASmallWindowIsNotAllAnswer) {
  EXPECT_EQ(check_window({.prompt = 96, .window = 128}).kind, Kind::fits);
  EXPECT_EQ(check_window({.prompt = 97, .window = 128}).kind, Kind::over);
}

TEST(WindowCheck, NoNumberOverflows) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(check_window({.prompt = 10, .answer = kHuge, .window = 2'048}).kind, Kind::cut);
  EXPECT_EQ(check_window({.prompt = 10, .answer = kHuge, .window = 2'048, .possible = kHuge}).kind,
            Kind::cut);
}

}  // namespace
}  // namespace gezel::worker
