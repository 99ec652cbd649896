#include "capacity/budget.h"

#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

TEST(Budget, Case16_UnifiedMachinesKeepBetween4And16GiB) {
  EXPECT_EQ(plan_budget({.ram = gib(24), .unified = true}).budget_bytes, 18'038'862'643u);
  EXPECT_EQ(plan_budget({.ram = gib(8), .unified = true}).budget_bytes, gib(4));
  const Budget large = plan_budget({.ram = gib(192), .unified = true});
  EXPECT_EQ(large.budget_bytes, gib(176));
  EXPECT_EQ(large.concurrency_bytes, gib(96));
}

TEST(Budget, Case17_ConcurrencyGrowsSlowerThanTheBudget) {
  const Budget below = plan_budget({.ram = gib(95), .unified = true});
  EXPECT_EQ(below.budget_bytes, gib(79));
  EXPECT_EQ(below.concurrency_bytes, 71'403'831'296u);
  const Budget large = plan_budget({.ram = gib(96), .unified = true});
  EXPECT_EQ(large.budget_bytes, gib(80));
  EXPECT_EQ(large.concurrency_bytes, 82'463'372'083u);
}

TEST(Budget, Case20_AnOverrideReplacesTheTotal) {
  BudgetInput input{.ram = gib(48), .vram = gib(16), .unified = false};
  input.override_bytes = parse_gib("20");
  const Budget twenty = plan_budget(input);
  EXPECT_EQ(twenty.budget_bytes, gib(20));
  EXPECT_EQ(twenty.fast_bytes, 16'320'875'724u);
  EXPECT_EQ(twenty.ram_share_bytes, 5'153'960'756u);
  input.override_bytes = parse_gib("10");
  const Budget ten = plan_budget(input);
  EXPECT_EQ(ten.budget_bytes, gib(10));
  EXPECT_EQ(ten.fast_bytes, gib(10));
  EXPECT_EQ(ten.ram_share_bytes, 0u);
  EXPECT_EQ(parse_gib("abc"), std::nullopt);
}

TEST(Budget, Case21_TheCeilingOfAutomaticCachesIsAQuarterButAtLeast8GiB) {
  EXPECT_EQ(auto_kv_ceiling(gib(48)), gib(12));
  EXPECT_EQ(auto_kv_ceiling(gib(22.8)), gib(8));
  EXPECT_EQ(auto_kv_ceiling(gib(112)), gib(28));
  EXPECT_EQ(auto_kv_ceiling(gib(112), gib(3)), gib(3));
}

TEST(Budget, GibibytesAreDecimalNumbersAboveZero) {
  EXPECT_EQ(parse_gib("0.5"), kGiB / 2);
  EXPECT_EQ(parse_gib("1.3"), 1'395'864'371u);
  EXPECT_EQ(parse_gib(".25"), kGiB / 4);
  for (const char* text : {"", ".", "0", "-1", "1e3", "2 ", "1.2.3", "99999999999999999999"})
    EXPECT_EQ(parse_gib(text), std::nullopt) << text;
}

TEST(Budget, ASmallMachineKeepsATenthButAtLeast128MiB) {
  EXPECT_EQ(plan_budget({.ram = gib(3)}).budget_bytes, gib(3) - gib(3) / 10);
  EXPECT_EQ(plan_budget({.ram = kGiB}).budget_bytes, kGiB - 128 * kMiB);
  EXPECT_EQ(plan_budget({.ram = 100 * kMiB}).budget_bytes, 0u);
}

TEST(Budget, MoreMemoryNeverGivesLess) {
  for (const bool unified : {false, true}) {
    for (const Bytes vram : {Bytes{0}, gib(16)}) {
      Budget before;
      for (Bytes ram = kGiB / 4; ram < gib(300); ram += kGiB / 4) {
        const Budget now = plan_budget({.ram = ram, .vram = vram, .unified = unified});
        EXPECT_GE(now.budget_bytes, before.budget_bytes) << ram;
        EXPECT_GE(now.fast_bytes, before.fast_bytes) << ram;
        EXPECT_GE(now.concurrency_bytes, before.concurrency_bytes) << ram;
        before = now;
      }
    }
  }
}

}  // namespace
}  // namespace gezel::capacity
