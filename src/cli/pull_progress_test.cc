#include "cli/pull_progress.h"

#include <gtest/gtest.h>

namespace gezel::cli {
namespace {

MonotonicTime at(int ms) {
  return MonotonicTime(Millis(ms));
}

TEST(PullProgress, TheRateIsThatOfTheLastSeconds) {
  Rate rate;
  EXPECT_FALSE(rate.bytes_per_second());
  rate.add(at(0), 0);
  EXPECT_FALSE(rate.bytes_per_second());
  rate.add(at(1'000), 1'000);
  EXPECT_DOUBLE_EQ(*rate.bytes_per_second(), 1'000);
  for (int second = 2; second <= 20; ++second) rate.add(at(second * 1'000), 1'000 + (second - 1) * 5'000);
  EXPECT_DOUBLE_EQ(*rate.bytes_per_second(), 5'000);
}

TEST(PullProgress, WhatIsReplayedAtOnceIsNoRate) {
  Rate rate;
  for (int i = 0; i < 50; ++i) rate.add(at(1'000 + i / 10), 1'000 * i);
  EXPECT_FALSE(rate.bytes_per_second());
  rate.add(at(2'000), 50'000);
  EXPECT_DOUBLE_EQ(*rate.bytes_per_second(), 1'000);
}

TEST(PullProgress, AFileThatBeginsAgainBeginsTheRateAgain) {
  Rate rate;
  rate.add(at(0), 1'000);
  rate.add(at(1'000), 2'000);
  rate.add(at(2'000), 100);
  EXPECT_FALSE(rate.bytes_per_second());
}

TEST(PullProgress, RemainingTimeInWords) {
  EXPECT_EQ(remaining_text(0.2), "1 s");
  EXPECT_EQ(remaining_text(59), "59 s");
  EXPECT_EQ(remaining_text(200), "3 min 20 s");
  EXPECT_EQ(remaining_text(7'500), "2 h 5 min");
}

TEST(PullProgress, ALineSaysHowFarAndHowLong) {
  EXPECT_EQ(progress_line(50 * kMiB, 100 * kMiB, 10.0 * kMiB, 80),
            " 50 %  50.0 MiB of 100.0 MiB  10.0 MiB/s  5 s left");
  EXPECT_EQ(progress_line(50 * kMiB, 100 * kMiB, std::nullopt, 100),
            " 50 % [############            ]  50.0 MiB of 100.0 MiB");
  EXPECT_EQ(progress_line(100 * kMiB - 1, 100 * kMiB, std::nullopt, 80), " 99 %  100.0 MiB of 100.0 MiB");
  EXPECT_EQ(progress_line(100 * kMiB, 100 * kMiB, 1.0, 80), "100 %  100.0 MiB of 100.0 MiB");
  EXPECT_EQ(progress_line(5 * kMiB, 0, std::nullopt, 80), "5.0 MiB downloaded");
}

}  // namespace
}  // namespace gezel::cli
