#include "system/pressure.h"

#include <gtest/gtest.h>

#include "system/test_tree.h"

namespace gezel::system {
namespace {

using namespace testing;  // TestTree of this module

constexpr const char* kStall =
    "some avg10=12.34 avg60=1.00 avg300=0.50 total=123\nfull avg10=2.05 avg60=0.00 avg300=0.00 total=5\n";

TEST(Pressure, StallsAreHundredthsOfAPercent) {
  const auto stall = parse_stall(kStall);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->some, 1234);
  EXPECT_EQ(stall->full, 205);
  EXPECT_EQ(parse_stall("some avg10=7\n")->some, 700);
  EXPECT_EQ(parse_stall("some avg10=7.5\n")->some, 750);
  EXPECT_EQ(parse_stall("some avg10=0.999\n")->some, 99);
}

TEST(Pressure, WhatIsNoPressureFileSaysNothing) {
  for (const char* text : {"", "some\n", "some avg10=\n", "some avg10=x.y\n", "full avg10=1.00\n",
                           "some avg60=1.00\n", "some avg10=-1.00\n", "some avg10=99999999999.0\n"})
    EXPECT_FALSE(parse_stall(text)) << text;
}

TEST(Pressure, TheWorseOfMachineAndGroupCounts) {
  TestTree tree;
  tree.cgroup2("/a").file("proc/pressure/memory", kStall);
  tree.file("sys/fs/cgroup/a/memory.pressure", "some avg10=1.00\nfull avg10=9.00\n");
  const PressureFacts facts = read_pressure(tree.root());
  ASSERT_TRUE(facts.machine && facts.group);
  EXPECT_EQ(facts.some(), 1234);
  EXPECT_EQ(facts.full(), 900);
}

TEST(Pressure, AMachineWithoutTheseFilesSaysNothing) {
  const TestTree tree;
  const PressureFacts facts = read_pressure(tree.root());
  EXPECT_EQ(facts.some(), std::nullopt);
  EXPECT_EQ(facts.group_used, std::nullopt);
}

TEST(Pressure, TheFullestGroupCountsWithoutItsFileCache) {
  TestTree tree;
  tree.memory(64, 60, 60).cgroup2("/a/b");
  tree.file("sys/fs/cgroup/a/b/memory.max", gib(16)).file("sys/fs/cgroup/a/b/memory.current", gib(12));
  tree.file("sys/fs/cgroup/a/b/memory.stat", "inactive_file " + gib(6));
  tree.file("sys/fs/cgroup/a/memory.max", gib(20)).file("sys/fs/cgroup/a/memory.current", gib(15));
  const PressureFacts facts = read_pressure(tree.root());
  EXPECT_EQ(facts.group_used, 15 * kGiB);
  EXPECT_EQ(facts.group_limit, 20 * kGiB);
}

TEST(Pressure, AnUnlimitedGroupIsNoGroup) {
  TestTree tree;
  tree.memory(32, 20, 20).cgroup1("/");
  tree.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.file("sys/fs/cgroup/memory/memory.usage_in_bytes", gib(9));
  EXPECT_EQ(read_pressure(tree.root()).group_used, std::nullopt);
}

TEST(Pressure, ThisMachineCanBeAsked) {
  EXPECT_LE(read_pressure().some().value_or(0), 10'000);
}

}  // namespace
}  // namespace gezel::system
