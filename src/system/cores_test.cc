#include "system/cores.h"

#include <gtest/gtest.h>

#include "system/test_tree.h"

namespace gezel::system {
namespace {

TEST(Cores, CpusThatShareACoreCountOnce) {
  testing::TestTree tree;
  for (int cpu = 0; cpu < 4; ++cpu)
    tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
              cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  EXPECT_EQ(physical_cores(tree.root(), [] { return std::vector{0, 1, 2, 3}; }), 2);
  EXPECT_EQ(physical_cores(tree.root(), [] { return std::vector{0, 2}; }), 1);
}

TEST(Cores, ASystemThatDoesNotSayHasNone) {
  const testing::TestTree tree;
  EXPECT_EQ(physical_cores(tree.root(), [] { return std::vector{0}; }), 0);
  EXPECT_EQ(physical_cores(tree.root(), [] { return std::vector<int>(); }), 0);
}

}  // namespace
}  // namespace gezel::system
