#include "system/memory.h"

#include <gtest/gtest.h>

#include "system/cgroup.h"
#include "system/test_tree.h"

namespace gezel::system {
namespace {

using namespace testing;  // TestTree and gib() of this module

TEST(Memory, WithoutContainerItIsTheMachines) {
  TestTree tree;
  tree.memory(64, 10, 40);
  const MemoryFacts facts = read_memory(tree.root());
  EXPECT_EQ(facts.physical, 64 * kGiB);
  EXPECT_EQ(facts.total, 64 * kGiB);
  EXPECT_EQ(facts.available, 40 * kGiB);
  EXPECT_FALSE(facts.limited);
}

TEST(Memory, Case5_TheTightestGroupAroundUsCounts) {
  TestTree tree;
  tree.memory(64, 60, 60).cgroup2("/a/b");
  tree.file("sys/fs/cgroup/a/b/memory.max", gib(16)).file("sys/fs/cgroup/a/memory.max", gib(12));
  const MemoryFacts facts = read_memory(tree.root());
  EXPECT_EQ(facts.total, 12 * kGiB);
  EXPECT_TRUE(facts.limited);
}

TEST(Memory, Case6_AGroupsFileCacheIsAvailable) {
  TestTree tree;
  tree.memory(64, 30, 40).cgroup2("/a");
  tree.file("sys/fs/cgroup/a/memory.max", gib(16)).file("sys/fs/cgroup/a/memory.current", gib(9.5));
  tree.file("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file " + gib(3) + "active_file 7\n");
  EXPECT_EQ(read_memory(tree.root()).available, static_cast<Bytes>(9.5 * kGiB));
}

TEST(Memory, OuterGroupsFillUpToo) {
  TestTree tree;
  tree.memory(64, 60, 60).cgroup2("/a/b");
  tree.file("sys/fs/cgroup/a/b/memory.max", gib(16)).file("sys/fs/cgroup/a/b/memory.current", gib(1));
  tree.file("sys/fs/cgroup/a/memory.max", gib(20)).file("sys/fs/cgroup/a/memory.current", gib(18));
  EXPECT_EQ(read_memory(tree.root()).available, 2 * kGiB);
}

TEST(Memory, NoMoreThanNineTenthsArePromisedUnlessTrulyFree) {
  TestTree overlapping;
  overlapping.memory(10, 1, 9.9);
  EXPECT_EQ(read_memory(overlapping.root()).available, 9 * kGiB);
  TestTree empty;
  empty.memory(10, 9.5, 9.9);
  EXPECT_EQ(read_memory(empty.root()).available, static_cast<Bytes>(9.5 * kGiB));
}

TEST(Memory, Version1LimitsAreHonoured) {
  TestTree tree;
  tree.memory(32, 20, 20).cgroup1("/docker/x");
  tree.file("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", gib(8));
  tree.file("sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", gib(5));
  tree.file("sys/fs/cgroup/memory/docker/x/memory.stat", "inactive_file 1\ntotal_inactive_file " + gib(2));
  const MemoryFacts facts = read_memory(tree.root());
  EXPECT_EQ(facts.total, 8 * kGiB);
  EXPECT_EQ(facts.available, 5 * kGiB);
}

TEST(Memory, Case4_Version1SaysUnlimitedWithAHugeNumber) {
  TestTree tree;
  tree.memory(32, 20, 20).cgroup1("/");
  tree.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read_memory(tree.root()).total, 32 * kGiB);
  EXPECT_FALSE(read_memory(tree.root()).limited);
}

TEST(Memory, AContainerThatSeesItsOwnGroupAsTheMountsRootIsFound) {
  TestTree tree;
  tree.memory(32, 20, 20).cgroup2("/docker/abc", "/docker/abc");
  tree.file("sys/fs/cgroup/memory.max", gib(4));
  EXPECT_EQ(read_memory(tree.root()).total, 4 * kGiB);
}

TEST(Memory, AGroupOutsideOfTheMountFallsBackToTheMount) {
  TestTree tree;
  tree.memory(32, 20, 20).cgroup2("/../elsewhere", "/here");
  tree.file("sys/fs/cgroup/memory.max", gib(4)).file("elsewhere/memory.max", gib(1));
  EXPECT_EQ(read_memory(tree.root()).total, 4 * kGiB);
}

TEST(Memory, MalformedFilesAreNoLimit) {
  for (const char* text : {"max\n", "", "-5\n", "12 apples\n", "99999999999999999999999999\n"}) {
    TestTree tree;
    tree.memory(32, 20, 20).cgroup2("/a").file("sys/fs/cgroup/a/memory.max", text);
    EXPECT_EQ(read_memory(tree.root()).total, 32 * kGiB) << text;
  }
  TestTree broken;
  broken.memory(32, 20, 20)
      .file("proc/self/cgroup", "garbage\n:::\n0::\n")
      .file("proc/self/mountinfo", "1 2 3\n- - -\n");
  EXPECT_EQ(read_memory(broken.root()).total, 32 * kGiB);
}

TEST(Memory, AnUnreadableMachineIsUnknownNotAFailure) {
  const TestTree tree;
  EXPECT_EQ(read_memory(tree.root()).total, 0u);
}

TEST(Memory, ThisMachineHasSome) {
  const MemoryFacts facts = read_memory();
  EXPECT_GT(facts.physical, 256 * kMiB);
  EXPECT_LE(facts.total, facts.physical);
  EXPECT_GT(facts.available, 0u);
  EXPECT_LE(facts.available, facts.total);
}

TEST(Memory, ThePressureFileIsTheGroupsElseTheMachines) {
  TestTree tree;
  tree.cgroup2("/a").file("proc/pressure/memory", "some avg10=0.00\n");
  EXPECT_EQ(memory_pressure_file(tree.root()), tree.root() / "proc/pressure/memory");
  tree.file("sys/fs/cgroup/a/memory.pressure", "some avg10=0.00\n");
  EXPECT_EQ(memory_pressure_file(tree.root()), tree.root() / "sys/fs/cgroup/a/memory.pressure");
  EXPECT_EQ(memory_pressure_file(TestTree().root()), "");
}

}  // namespace
}  // namespace gezel::system
