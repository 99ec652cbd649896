#include "capacity/growth.h"

#include <gtest/gtest.h>

#include "capacity/budget.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

TEST(Growth, Case58_TheCeilingOfAutomaticCachesBinds) {
  GrowthInput input{.base = 65'536,
                    .target = 262'144,
                    .slots = 2,
                    .cost = {.resident = gib(12), .token = 48 * kKiB},
                    .fast_budget = gib(28),
                    .free_ram = gib(60),
                    .kv_ceiling = auto_kv_ceiling(gib(28))};
  const Growth growth = grow_context(input);
  EXPECT_EQ(growth.context, 87'040);
  EXPECT_EQ(growth.slots, 2);
  EXPECT_EQ(growth.binding, Binding::kv_ceiling);
  input.kv_ceiling = gib(100);
  EXPECT_EQ(grow_context(input).context, 139'264);
}

TEST(Growth, Case59_LanesAreTradedForAQuarterMore) {
  GrowthInput input{.base = 65'536,
                    .target = 262'144,
                    .slots = 3,
                    .cost = {.resident = gib(20), .token = 36 * kKiB},
                    .discrete = true,
                    .fast_budget = gib(30),
                    .vram = gib(30),
                    .kv_ceiling = gib(64)};
  EXPECT_EQ(grow_context(input).slots, 2);
  EXPECT_EQ(grow_context(input).context, 115'712);
  GrowthInput configured = input;
  configured.slots_configured = true;
  EXPECT_EQ(grow_context(configured).slots, 3);
  EXPECT_EQ(grow_context(configured).context, 76'800);
  input.target = 90'112;
  EXPECT_EQ(grow_context(input).slots, 3);
  EXPECT_EQ(grow_context(input).context, 76'800);
}

TEST(Growth, Case60_ExpertsAndGuessesDoNotGrow) {
  const GrowthInput input{.base = 65'536,
                          .target = 262'144,
                          .slots = 2,
                          .cost = {.resident = gib(2), .token = kKiB},
                          .discrete = true,
                          .fast_budget = gib(30),
                          .vram = gib(30),
                          .kv_ceiling = gib(64)};
  EXPECT_TRUE(grow_context(input).grown);
  GrowthInput moe = input;
  moe.moe = true;
  EXPECT_FALSE(grow_context(moe).grown);
  EXPECT_EQ(grow_context(moe).context, 65'536);
  GrowthInput guessed = input;
  guessed.exact = false;
  EXPECT_FALSE(grow_context(guessed).grown);
}

}  // namespace
}  // namespace gezel::capacity
