#include "system/cpu_share.h"

#include <gtest/gtest.h>

#include "system/test_tree.h"

namespace gezel::system {
namespace {

using namespace testing;  // TestTree of this module

TEST(CpuShare, WhatIsNotOursIsOthers) {
  TestTree tree;
  tree.file("proc/stat", "cpu  100 10 50 800 20 5 5 10 0 0\ncpu0 1 2 3 4\n");
  tree.file("proc/7/stat", "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 30 12 9 9 20 0 1 0\n");
  const int pids[] = {7, 8};
  const auto times = read_cpu_times(pids, tree.root());
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 1000u);
  EXPECT_EQ(times->busy, 170u);
  EXPECT_EQ(times->own, 42u);
}

TEST(CpuShare, TheShareIsBetweenTwoReadings) {
  EXPECT_EQ(
      others_permille({.total = 1000, .busy = 100, .own = 50}, {.total = 2000, .busy = 800, .own = 250}),
      500);
  EXPECT_EQ(others_permille({.total = 1000}, {.total = 1000}), std::nullopt);
  EXPECT_EQ(others_permille({.total = 1000}, {.total = 2000, .busy = 10, .own = 500}), 0);
  EXPECT_EQ(others_permille({.total = 0, .busy = 0, .own = 90}, {.total = 100, .busy = 100, .own = 0}), 1000);
}

TEST(CpuShare, MalformedFilesSayNothing) {
  for (const char* text : {"", "cpu\n", "cpu0 1 2 3 4 5 6\n", "intr 5 6 7 8 9 10\n"}) {
    TestTree tree;
    tree.file("proc/stat", text);
    EXPECT_FALSE(read_cpu_times({}, tree.root())) << text;
  }
  EXPECT_FALSE(read_cpu_times({}, TestTree().root()));
}

TEST(CpuShare, ThisMachineAnswers) {
  const auto times = read_cpu_times({});
  ASSERT_TRUE(times);
  EXPECT_GT(times->total, times->busy);
}

}  // namespace
}  // namespace gezel::system
