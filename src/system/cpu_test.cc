#include "system/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "system/test_tree.h"

namespace gezel::system {
namespace {

using namespace testing;  // TestTree of this module
using ::testing::ElementsAre;

CpuFacts read(const TestTree& tree, int affinity) {
  return read_cpu(tree.root(), [affinity] { return affinity; });
}

TEST(Cpu, Case1_AFractionalQuotaIsRoundedDown) {
  TestTree tree;
  tree.cpus("0-7").cgroup2("/a").file("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(read(tree, 8).available, 1);
  EXPECT_EQ(read(tree, 8).container_limit, 1);
  tree.file("sys/fs/cgroup/a/cpu.max", "250000 100000\n").cpus("0-31");
  EXPECT_EQ(read(tree, 32).available, 2);
}

TEST(Cpu, AQuotaBelowOneCpuIsOne) {
  TestTree tree;
  tree.cpus("0-7").cgroup2("/").file("sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(read(tree, 8).available, 1);
}

TEST(Cpu, Case2_AQuotaOfTheWholeMachineIsNoLimit) {
  TestTree tree;
  tree.cpus("0-15").cgroup2("/a").file("sys/fs/cgroup/a/cpu.max", "800000 100000\n");
  EXPECT_EQ(read(tree, 16).container_limit, 8);
  tree.cpus("0-7");
  EXPECT_EQ(read(tree, 8).available, 8);
  EXPECT_EQ(read(tree, 8).container_limit, std::nullopt);
}

TEST(Cpu, Case3_TheAffinityMaskIsALimit) {
  TestTree tree;
  tree.cpus("0-15").cgroup2("/a").file("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(read(tree, 4).available, 4);
  EXPECT_EQ(read(tree, 4).container_limit, 4);
}

TEST(Cpu, TheTightestQuotaAroundUsCounts) {
  TestTree tree;
  tree.cpus("0-15").cgroup2("/a/b").file("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
  tree.file("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(tree, 16).available, 3);
}

TEST(Cpu, Case4_Version1QuotasAreHonoured) {
  TestTree tree;
  tree.cpus("0-7").cgroup1("/x");
  tree.file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "350000\n");
  tree.file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read(tree, 8).available, 3);
  tree.file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(read(tree, 8).available, 8);
  tree.file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "100000\n");
  tree.file("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "0\n");
  EXPECT_EQ(read(tree, 8).available, 8);
}

TEST(Cpu, MalformedQuotasAreNoLimit) {
  for (const char* text : {"", "max\n", "1\n", "a b\n", "-1 100000\n", "1 2 3\n"}) {
    TestTree tree;
    tree.cpus("0-3").cgroup2("/a").file("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(read(tree, 4).available, 4) << text;
  }
}

TEST(Cpu, OnlineListsAreCounted) {
  const std::pair<const char*, int> lists[] = {{"0", 1}, {"0-3", 4}, {"0-3,8,10-11", 7}};
  for (const auto& [list, count] : lists) {
    TestTree tree;
    tree.cpus(list);
    EXPECT_EQ(read(tree, 0).online, count) << list;
  }
}

TEST(Cpu, WithoutOnlineListProcessorsAreCounted) {
  TestTree tree;
  tree.file("proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n\n");
  EXPECT_EQ(read(tree, 0).online, 2);
}

TEST(Cpu, ModelAndInferenceFeaturesAreRead) {
  TestTree tree;
  tree.file("proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx512f avx2 fma amx_int8 f16c "
            "avx512vbmi "
            "nonsense\n\n"
            "processor\t: 1\nmodel name\t: Other\nflags\t\t: fpu\n");
  const CpuFacts facts = read(tree, 2);
  EXPECT_EQ(facts.model, "Some CPU @ 2 GHz");
  EXPECT_THAT(facts.features, ElementsAre("amx_int8", "avx2", "avx512f", "avx512vbmi", "f16c", "fma"));
}

TEST(Cpu, ArmFeaturesAreRead) {
  TestTree tree;
  tree.file("proc/cpuinfo", "processor : 0\nFeatures : fp asimd asimddp i8mm sve\n");
  EXPECT_THAT(read(tree, 1).features, ElementsAre("asimd", "asimddp", "i8mm", "sve"));
}

TEST(Cpu, AnUnreadableMachineHasAtLeastOne) {
  const TestTree tree;
  EXPECT_GE(read(tree, 0).available, 1);
}

TEST(Cpu, ThisMachineAnswers) {
  const CpuFacts facts = read_cpu();
  EXPECT_GE(facts.available, 1);
  EXPECT_LE(facts.available, facts.online);
  EXPECT_GE(affinity_cpus(), 1);
}

}  // namespace
}  // namespace gezel::system
