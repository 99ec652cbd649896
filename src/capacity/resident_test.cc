#include "capacity/resident.h"

#include <gtest/gtest.h>

#include "capacity/requirement.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() of this module

TEST(Resident, Case41_LlamaTakesATenthMoreAndBuffers) {
  EXPECT_EQ(resident_bytes(EngineFamily::llama_cpp, 5'000'000'000), 5'768'435'456u);
  EXPECT_EQ(resident_bytes(EngineFamily::llama_cpp, 5'000'000'000, 900'000'000), 7'161'088'640u);
}

TEST(Resident, Case42_OtherEnginesHaveTheirOwnFormula) {
  EXPECT_EQ(resident_bytes(EngineFamily::mlx, 9'000'000'000), 10'253'741'824u);
  EXPECT_EQ(resident_bytes(EngineFamily::ds4, gib(60)), gib(48));
  EXPECT_EQ(resident_bytes(EngineFamily::ds4, gib(30)), gib(30));
}

TEST(Resident, Case43_TheCatalogsKvIsScaledByItsType) {
  const ManifestCosts costs{.kv_per_token_f16 = 100'000};
  EXPECT_EQ(manifest_kv_bytes(costs), 3'604'480'000u);
  EXPECT_EQ(manifest_kv_bytes(costs, 32'768), 1'802'240'000u);
  EXPECT_EQ(manifest_kv_bytes({}), 0u);
  EXPECT_EQ(manifest_kv_bytes(
                {.family = EngineFamily::mlx, .kv_per_token_f16 = 24'576, .kv_fixed_f16 = 50'000'000}),
            1'660'612'736u);
}

TEST(Resident, Case44_ARatingPricesTheMachinesContextFloor) {
  const Footprint footprint =
      rating_footprint({.weights = gib(7), .kv_per_token_f16 = 100'000}, context_floor(0, gib(64)));
  EXPECT_EQ(footprint.bytes, 12'140'727'501u);
  EXPECT_FALSE(footprint.estimated);
}

TEST(Resident, AFootprintWithoutKvFigureIsEstimated) {
  const Footprint footprint = rating_footprint({.weights = 4'000'000'000}, 32'768);
  EXPECT_TRUE(footprint.estimated);
  EXPECT_EQ(footprint.bytes, resident_bytes(EngineFamily::llama_cpp, 4'000'000'000) + 738'197'504u);
}

TEST(Resident, AMeasuredFigureReplacesTheFormula) {
  EXPECT_EQ(
      rating_footprint({.weights = gib(7), .resident = gib(9), .kv_per_token_f16 = 100'000}, 65'536).bytes,
      gib(9) + 3'604'480'000u);
  EXPECT_EQ(
      rating_footprint({.family = EngineFamily::ds4, .resident = gib(40), .kv_per_token_f16 = 9}, 65'536)
          .bytes,
      gib(40));
}

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
