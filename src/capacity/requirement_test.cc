#include "capacity/requirement.h"

#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

TEST(Requirement, Case45_SmallMachinesHaveALowerFloor) {
  EXPECT_EQ(context_floor(0, gib(16)), 32'768);
  EXPECT_EQ(context_floor(0, gib(17)), 65'536);
  EXPECT_EQ(context_floor(gib(8), gib(64)), 32'768);
  EXPECT_EQ(context_floor(gib(16), gib(12)), 65'536);
  EXPECT_EQ(context_floor(0, 0), 65'536);
}

TEST(Requirement, Case46_AWindowIsNeverAskedForBelowTheMinimum) {
  struct Row {
    Tokens native;
    std::optional<Tokens> request;
    Tokens floor, minimum, requested;
  };
  const Row rows[] = {{40'960, {}, 65'536, 40'960, 40'960},
                      {262'144, 16'384, 65'536, 65'536, 65'536},
                      {262'144, 100'000, 65'536, 65'536, 100'000},
                      {24'576, 8'192, 32'768, 24'576, 24'576}};
  for (const Row& row : rows) {
    const auto need = context_requirement(row.native, row.request, row.floor);
    EXPECT_EQ(need.minimum, row.minimum) << row.native;
    EXPECT_EQ(need.requested, row.requested) << row.native;
  }
}

TEST(Requirement, Case47_OnlyAnAdaptiveWindowGrows) {
  EXPECT_EQ(context_requirement({.native = 200'000}, 65'536).growth_target, 199'680);
  EXPECT_EQ(context_requirement({.catalog = 131'072, .native = 262'144}, 65'536).growth_target, std::nullopt);
  const auto max = context_requirement({.sizing = ContextSizing::model_max, .native = 262'144}, 65'536);
  EXPECT_EQ(max.growth_target, std::nullopt);
  EXPECT_EQ(max.requested, 262'144);
  EXPECT_EQ(max.minimum, 262'144);
  EXPECT_TRUE(max.strict);
}

TEST(Requirement, TheEnvironmentIsAskedBeforeTheModelBeforeTheMachine) {
  const ContextWish all{
      .environment = 100'000, .model_override = 110'000, .configured = 120'000, .native = 262'144};
  EXPECT_EQ(context_requirement(all, 65'536).requested, 100'000);
  EXPECT_TRUE(context_requirement(all, 65'536).unchecked);
  ContextWish two = all;
  two.environment.reset();
  EXPECT_EQ(context_requirement(two, 65'536).requested, 110'000);
  two.model_override.reset();
  EXPECT_EQ(context_requirement(two, 65'536).requested, 120'000);
  EXPECT_TRUE(context_requirement(two, 65'536).explicitly_asked);
}

TEST(Requirement, AModelsOwnOverrideLowersTheFloor) {
  const auto by_model = context_requirement({.model_override = 8'192, .native = 262'144}, 65'536);
  EXPECT_EQ(by_model.minimum, 8'192);
  EXPECT_EQ(by_model.requested, 8'192);
  const auto by_machine = context_requirement({.configured = 8'192, .native = 262'144}, 65'536);
  EXPECT_EQ(by_machine.requested, 65'536);
}

TEST(Requirement, OnlyWithoutAWishMayTheWindowGoBelowTheFloor) {
  EXPECT_EQ(below_floor_minimum(context_requirement({.native = 131'072}, 65'536)), 4'096);
  EXPECT_EQ(below_floor_minimum(context_requirement({.native = 2'048}, 65'536)), 2'048);
  EXPECT_EQ(below_floor_minimum(context_requirement({.configured = 70'000}, 65'536)), std::nullopt);
  EXPECT_EQ(below_floor_minimum(context_requirement({.sizing = ContextSizing::model_max, .native = 8}, 8)),
            std::nullopt);
}

}  // namespace
}  // namespace gezel::capacity
