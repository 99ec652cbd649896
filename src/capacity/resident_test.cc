#include "capacity/resident.h"

#include <gtest/gtest.h>

#include "capacity/requirement.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

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

}  // namespace
}  // namespace gezel::capacity
