#include "capacity/mlx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(Mlx, AConfigurationGivesGeometryAndWindow) {
  const MlxModel model =
      parse_mlx_config(R"({"text_config": {"num_hidden_layers": 4, "num_key_value_heads": 2,
      "hidden_size": 512, "num_attention_heads": 4, "global_head_dim": 256, "num_global_key_value_heads": 1,
      "layer_types": ["sliding_attention", "full_attention", "linear_attention", "full_attention"],
      "n_positions": 4096, "max_position_embeddings": 0}})");
  ASSERT_TRUE(model.geometry);
  EXPECT_EQ(model.geometry->windowed_elements, 2u * 2 * 2 * 128);
  EXPECT_EQ(model.geometry->global_elements, 2u * 2 * 1 * 256);
  EXPECT_EQ(model.geometry->window, 1024);
  EXPECT_EQ(model.native, 4096);
}

TEST(Mlx, AConfigurationWithoutLayersOrHeadsHasNoGeometry) {
  for (const char* text : {"", "[]", "{}", R"({"num_hidden_layers": 4, "num_key_value_heads": 2})",
                           R"({"num_hidden_layers": -4, "num_key_value_heads": 2, "head_dim": 64})"})
    EXPECT_FALSE(parse_mlx_config(text).geometry) << text;
}

MlxInput mlx_input(double ram) {
  const MemoryProfile host = unified_host(ram);
  return {.weights = gib(8),
          .pools = host.budget,
          .total_ram = host.total_ram_bytes,
          .broker = machine(host).broker};
}

TEST(Mlx, WithoutGeometryItIsOneSlotAndNoLadder) {
  MlxInput input = mlx_input(32);
  input.model.native = 131'072;
  const MlxPlan plan = plan_mlx(input);
  EXPECT_EQ(plan.memory.slots, 1);
  EXPECT_EQ(plan.memory.context, 131'072);
  EXPECT_EQ(plan.memory.reservation(), resident_bytes(EngineFamily::mlx, gib(8)));
  EXPECT_THAT(plan.arguments, Not(Contains("--wired-limit-mb")));
}

TEST(Mlx, TheCacheIsPricedAtF16WhateverItsBits) {
  MlxInput input = mlx_input(64);
  input.model.geometry = KvGeometry{.global_elements = 49'152};
  input.model.native = 65'536;
  input.slots = 2;
  input.kv_bits = 4;
  const MlxPlan plan = plan_mlx(input);
  EXPECT_EQ(plan.memory.decision, Decision::fits);
  EXPECT_EQ(plan.memory.slots, 2);
  EXPECT_EQ(plan.memory.reservation(),
            resident_bytes(EngineFamily::mlx, gib(8)) + Bytes{2} * 65'536 * 98'304);
  EXPECT_THAT(plan.arguments,
              ElementsAre("--max-concurrency", "2", "--gpu-memory-limit-mb", std::to_string(48 * 1024),
                          "--wired-limit-mb", std::to_string(plan.memory.reservation() / kMiB),
                          "--cache-budget-mb", "16384", "--kv-bits", "4", "--kv-quant-scheme", "uniform"));
}

TEST(Mlx, AModelThatDoesNotFitIsNotGranted) {
  MlxInput input = mlx_input(8);
  input.model.geometry = KvGeometry{.global_elements = 49'152};
  const MlxPlan plan = plan_mlx(input);
  EXPECT_EQ(plan.memory.decision, Decision::no);
  ASSERT_TRUE(plan.memory.denial);
  EXPECT_EQ(plan.memory.denial->rule, DenialRule::context);
  EXPECT_TRUE(plan.arguments.empty());
}

}  // namespace
}  // namespace gezel::capacity
