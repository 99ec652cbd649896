#include "capacity/ds4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Not;

Result<Ds4Plan> stream(double ram, std::optional<Bytes> resident, std::optional<Bytes> cache,
                       std::optional<std::uint64_t> configured = {}) {
  return plan_ds4(
      {.total_ram = gib(ram), .cache_experts_gib = configured, .resident = resident, .cache_experts = cache});
}

TEST(Ds4, Case86_TheExpertCacheLeaves32GiBForEverythingElse) {
  EXPECT_EQ(stream(128, gib(36), gib(32))->cache_experts_gib, 32u);
  EXPECT_FALSE(stream(128, gib(36), gib(32))->clamped);
  EXPECT_EQ(stream(64, gib(36), gib(32))->cache_experts_gib, 28u);
  EXPECT_TRUE(stream(64, gib(36), gib(32))->clamped);
  EXPECT_EQ(stream(32, gib(36), gib(32)).error().code, "capacity-denied");
  EXPECT_EQ(stream(128, gib(42), gib(32), 100)->cache_experts_gib, 86u);
  EXPECT_TRUE(stream(128, gib(42), gib(32), 100)->clamped);
  EXPECT_EQ(stream(96, std::nullopt, std::nullopt)->cache_experts_gib, 48u);
}

TEST(Ds4, Case87_AMeasuredWorkingSetIsRebasedToTheWindow) {
  EXPECT_EQ(rebased_resident(gib(40), 16'384, 131'072, 65'536), gib(39));
  EXPECT_EQ(rebased_resident(gib(40), 16'384, 131'072, 262'144), gib(42));
  EXPECT_EQ(rebased_resident(gib(40), std::nullopt, 131'072, 262'144), gib(40));
}

TEST(Ds4, FullResidencyNeedsRoomAndAChoice) {
  Ds4Input input{.platform = Platform::macos, .arm64 = true, .total_ram = gib(128), .weights = gib(80)};
  EXPECT_TRUE(plan_ds4(input)->streaming);
  input.streaming = false;
  EXPECT_FALSE(plan_ds4(input)->streaming);
  EXPECT_EQ(plan_ds4(input)->memory.reservation(), gib(96));
  EXPECT_THAT(plan_ds4(input)->arguments, AllOf(Contains("--metal"), Not(Contains("--ssd-streaming"))));
  input.weights = gib(97);
  EXPECT_TRUE(plan_ds4(input)->streaming);
  EXPECT_THAT(plan_ds4(input)->arguments, Contains("64GB"));
}

TEST(Ds4, TheWindowGoesByMemoryAndTheCatalogsCeiling) {
  Ds4Input input{.total_ram = gib(128)};
  EXPECT_EQ(plan_ds4(input)->memory.context, 131'072);
  input.total_ram = gib(192);
  EXPECT_EQ(plan_ds4(input)->memory.context, 262'144);
  input.max_launch_context = 200'000;
  EXPECT_EQ(plan_ds4(input)->memory.context, 200'000);
  input.max_launch_context = 32'768;
  EXPECT_EQ(plan_ds4(input)->memory.context, 32'768);
  input.max_launch_context.reset();
  input.context = 8'192;
  EXPECT_EQ(plan_ds4(input)->memory.context, 65'536);
}

}  // namespace
}  // namespace gezel::capacity
