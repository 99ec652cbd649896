#include "capacity/offload.h"

#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() of this module

// Experts of 0.75 GiB in each of 24 blocks, 3 GiB beside them.
OffloadInput moe(double vram, double kv) {
  gguf::TensorSizes tensors{.expert_bytes_total = 24 * gib(0.75), .non_expert_bytes = gib(3)};
  tensors.expert_bytes_by_layer.assign(24, gib(0.75));
  return {
      .vram = gib(vram), .moe = true, .resident = gib(23), .kv = gib(kv), .tensors = tensors, .blocks = 24};
}

const Offload kEngineDecides{};
const Offload kAllExpertsInRam{.gpu_layers = kAllLayers, .cpu_moe = true};
const Offload kAllExpertsInRamUnpinned{.cpu_moe = true};
Offload experts_in_ram(int layers) {
  return {.gpu_layers = kAllLayers, .n_cpu_moe = layers};
}

TEST(Offload, Case74_ExpertsArePackedFromTheLastLayer) {
  EXPECT_EQ(plan_offload(moe(16, 1)), experts_in_ram(10));
  EXPECT_EQ(plan_offload(moe(24, 1)), kEngineDecides);
  EXPECT_EQ(plan_offload(moe(6, 0.5)), experts_in_ram(23));
  EXPECT_EQ(plan_offload(moe(4, 0)), kAllExpertsInRamUnpinned);
}

TEST(Offload, Case75_FullResidencyIsExact) {
  OffloadInput input = moe(22.5, 0);
  EXPECT_EQ(plan_offload(input), kEngineDecides);
  --input.vram;
  EXPECT_EQ(plan_offload(input), experts_in_ram(1));
}

TEST(Offload, Case76_BlocksWithoutExpertsAreFree) {
  gguf::TensorSizes tensors{.expert_bytes_total = gib(10), .non_expert_bytes = gib(2)};
  tensors.expert_bytes_by_layer.assign(12, gib(1));
  tensors.expert_bytes_by_layer[10] = tensors.expert_bytes_by_layer[11] = 0;
  OffloadInput input{.vram = gib(8), .moe = true, .tensors = tensors, .blocks = 12};
  EXPECT_EQ(plan_offload(input), experts_in_ram(6));
  input.vram = gib(3.75);
  EXPECT_EQ(plan_offload(input), kAllExpertsInRam);
}

TEST(Offload, Case77_WithoutTensorSizesItIsAllOrNothing) {
  OffloadInput input{.vram = gib(16), .moe = true, .resident = gib(15)};
  EXPECT_EQ(plan_offload(input), kEngineDecides);
  ++input.resident;
  EXPECT_EQ(plan_offload(input), kAllExpertsInRam);
}

TEST(Offload, Case78_OutOfMemoryWalksDownOneStepEach) {
  const auto first = after_out_of_memory(experts_in_ram(10), {});
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, kAllExpertsInRam);
  const auto second = after_out_of_memory(*first, {});
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, kAllExpertsInRamUnpinned);
  EXPECT_FALSE(after_out_of_memory(*second, {}));
  EXPECT_FALSE(after_out_of_memory(experts_in_ram(10), {true, true, true}));
  EXPECT_TRUE(after_out_of_memory(experts_in_ram(10), {true, true, false}));
}

TEST(Offload, DenseModelsAndMachinesWithoutGpuAreLeftAlone) {
  EXPECT_EQ(plan_offload({.vram = gib(8), .resident = gib(80)}), kEngineDecides);
  EXPECT_EQ(plan_offload({.moe = true, .resident = gib(80)}), kEngineDecides);
}

}  // namespace
}  // namespace gezel::capacity
