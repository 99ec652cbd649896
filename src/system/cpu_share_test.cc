#include "system/cpu_share.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "system/test_tree.h"

namespace gezel::system {
namespace {

using namespace testing;  // TestTree of this module

// "/proc/<pid>/stat" of a process that used `ticks`, and whose ended children used `children`.
std::string process_stat(int ticks, int children = 0) {
  return "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 " + std::to_string(ticks) + " 0 " + std::to_string(children) +
         " 0 20 0 1 0\n";
}

TEST(CpuShare, WhatIsNotOursIsOthers) {
  TestTree tree;
  tree.file("proc/stat", "cpu  100 10 50 800 20 5 5 10 0 0\nintr 1 2 3\n");
  tree.file("proc/7/stat", "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 30 12 9 1 20 0 1 0\n");
  const int pids[] = {7, 8};
  const auto times = read_cpu_times(pids, tree.root());
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 1000u);
  EXPECT_EQ(times->busy, 170u);
  EXPECT_EQ(times->own, 52u);
}

TEST(CpuShare, TheShareIsBetweenTwoReadings) {
  EXPECT_EQ(
      others_permille({.total = 1000, .busy = 100, .own = 50}, {.total = 2000, .busy = 800, .own = 250}),
      500);
  EXPECT_EQ(others_permille({.total = 1000}, {.total = 1000}), std::nullopt);
  EXPECT_EQ(others_permille({.total = 1000}, {.total = 2000, .busy = 10, .own = 500}), 0);
  EXPECT_EQ(others_permille({.total = 0, .busy = 0, .own = 90}, {.total = 100, .busy = 100, .own = 0}), 1000);
}

TEST(CpuShare, AWorkerThatEndedStaysOurs) {
  TestTree tree;
  tree.file("proc/stat", "cpu 0 0 0 0 0 0 0\n");
  tree.file("proc/1/stat", process_stat(10)).file("proc/2/stat", process_stat(500));
  const int both[] = {1, 2};
  const auto before = read_cpu_times(both, tree.root());
  tree.file("proc/stat", "cpu 100 0 0 900 0 0 0\n").file("proc/1/stat", process_stat(20, 590));
  const int one[] = {1};
  const auto after = read_cpu_times(one, tree.root());
  EXPECT_EQ(others_permille(*before, *after), 0);
}

TEST(CpuShare, OnlyProcessorsThatWeMayRunOnCount) {
  TestTree tree;
  tree.file("proc/self/status", "Name:\tx\nCpus_allowed_list:\t1,3-4\n");
  tree.file("proc/stat",
            "cpu 0 0 0 0 0 0 0\ncpu0 9 9 9 9 9 9 9\ncpu1 1 0 0 2 0 0 0\ncpu3 2 0 0 5 0 0 0\nintr 8\n");
  const auto times = read_cpu_times({}, tree.root());
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 10u);
  EXPECT_EQ(times->busy, 3u);
  EXPECT_EQ(times->cpus, 2);
}

TEST(CpuShare, OthersInOurContainerCountAgainstItsQuota) {
  // One of eight processors is ours by quota; somebody beside us in the container uses half of it.
  const CpuTimes before{.cpus = 8, .group = CpuTimes::Group{.used = 0, .cpus = 1}};
  const CpuTimes after{.total = 800, .busy = 80, .own = 30, .cpus = 8, .group = CpuTimes::Group{80, 1}};
  EXPECT_EQ(others_permille(before, after), 500);
}

TEST(CpuShare, AGroupIsReadInBothVersions) {
  TestTree two;
  two.cgroup2("/a").file("proc/stat", "cpu 1 0 0 1 0 0 0\n");
  two.file("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  two.file("sys/fs/cgroup/a/cpu.stat", "usage_usec 5000000\nuser_usec 1\n");
  const auto times = read_cpu_times({}, two.root());
  ASSERT_TRUE(times && times->group);
  EXPECT_EQ(times->group->cpus, 2);
  EXPECT_EQ(times->group->used, 5u * static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)));

  TestTree one;
  one.cgroup1("/a").file("proc/stat", "cpu 1 0 0 1 0 0 0\n");
  one.file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  one.file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  one.file("sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage", "7000000000\n");
  const auto old = read_cpu_times({}, one.root());
  ASSERT_TRUE(old && old->group);
  EXPECT_EQ(old->group->cpus, 3);
  EXPECT_EQ(old->group->used, 7u * static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)));
}

TEST(CpuShare, WithoutAQuotaThereIsNoGroup) {
  TestTree tree;
  tree.cgroup2("/a").file("proc/stat", "cpu 1 0 0 1 0 0 0\n").file("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  const auto times = read_cpu_times({}, tree.root());
  ASSERT_TRUE(times);
  EXPECT_FALSE(times->group);
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
