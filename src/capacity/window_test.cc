#include "capacity/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::HasSubstr;

// 128 KiB per token of f16, trained for 131,072 tokens, one slot.
LaunchInput launch(double free) {
  LaunchInput input;
  input.model = {.key = "llama-cpp:new:0",
                 .id = "new",
                 .name = "New Model",
                 .architecture = "llama",
                 .weights = gib(2),
                 .geometry = KvGeometry{.global_elements = 65'536, .attention_layers = 32},
                 .native = 131'072};
  input.machine = machine(plain_host(64));
  input.machine.free_ram = gib(free);
  input.settings.kv_type = KvType::f16;
  input.settings.slots = 1;
  return input;
}

TEST(Window, WhatRequestsNeedIsTheLeastThatIsGranted) {
  // Room for 65,536 tokens and some.
  const LaunchInput input = launch(16);
  EXPECT_GE(plan_window(input, 0).context, 65'536);
  const MemoryPlan plan = plan_window(input, 70'000);
  EXPECT_NE(plan.decision, Decision::no);
  EXPECT_GE(plan.context, 70'000);
  EXPECT_EQ(plan_window(input, 131'072).decision, Decision::no);
}

TEST(Window, ANeedIsHeldBelowTheFloorToo) {
  const LaunchInput input = launch(6);
  const MemoryPlan usual = plan_window(input, 0);
  ASSERT_TRUE(usual.below_floor);
  EXPECT_GE(plan_window(input, usual.context).context, usual.context);
  EXPECT_TRUE(plan_window(input, usual.context).below_floor);
  EXPECT_EQ(plan_window(input, usual.context + 2 * kClampGrain).decision, Decision::no);
}

TEST(Window, ANeedBeyondTheModelCountsAsTheModelsOwnWindow) {
  LaunchInput input = launch(40);
  input.settings.context.needed = 1'000'000;
  const auto need = launch_requirement(input);
  EXPECT_EQ(need.needed, 131'072);
  EXPECT_EQ(need.requested, 131'072);
}

TEST(Window, AWindowThatAPersonNamedIsTheLimit) {
  LaunchInput input = launch(40);
  input.settings.context.model_override = 8'192;
  const WindowReach reach = window_reach(input);
  EXPECT_EQ(reach.limit, 8'192);
  EXPECT_EQ(reach.largest, 8'192);
  EXPECT_EQ(reach.native, 131'072);
  EXPECT_TRUE(reach.named);
  EXPECT_EQ(reload_target(reach, 8'192, 8'193), 0);
}

TEST(Window, TheReachIsTheModelsOwnWindowWhereItFits) {
  const WindowReach reach = window_reach(launch(40));
  EXPECT_EQ(reach.limit, 131'072);
  EXPECT_EQ(reach.largest, 131'072);
  EXPECT_EQ(reach.binding, Binding::none);
}

TEST(Window, TheReachSaysWhatFitsAndWhatStandsInTheWay) {
  const LaunchInput input = launch(16);
  const WindowReach reach = window_reach(input);
  EXPECT_LT(reach.largest, reach.limit);
  EXPECT_EQ(reach.binding, Binding::live_memory);
  EXPECT_NE(plan_window(input, reach.largest).decision, Decision::no);
  EXPECT_EQ(plan_window(input, reach.largest + 2 * kClampGrain).decision, Decision::no);
}

TEST(Window, ABusyModelStaysAndAnIdleOneMakesWay) {
  LaunchInput input = launch(16);
  input.machine.residents = {{.key = "llama-cpp:other:0", .bytes = gib(8), .busy = true}};
  input.machine.committed_other = gib(8);
  const Tokens beside = window_reach(input).largest;
  input.machine.residents[0].busy = false;
  EXPECT_GT(window_reach(input).largest, beside);
}

TEST(Window, EveryWindowUpToTheReachCanBeHad) {
  for (const double free : {5.0, 6.0, 8.0, 12.0, 16.0, 24.0}) {
    LaunchInput input = launch(free);
    input.settings.slots.reset();
    const WindowReach reach = window_reach(input);
    for (Tokens needed = 1'000; needed <= reach.largest; needed += 997)
      EXPECT_GE(plan_window(input, needed).context, needed) << free << " GiB, reach " << reach.largest;
  }
}

TEST(Window, GrowsByAQuarterAtLeastOrToTheEnd) {
  const WindowReach reach{.limit = 100'000, .native = 100'000, .largest = 50'000};
  EXPECT_EQ(reload_target(reach, 8'000, 8'001), 10'000);
  EXPECT_EQ(reload_target(reach, 8'000, 30'000), 30'000);
  EXPECT_EQ(reload_target(reach, 45'000, 46'000), 50'000);
  EXPECT_EQ(reload_target(reach, 8'000, 50'001), 0) << "no load for what does not fit";
  EXPECT_EQ(reload_target(reach, 8'000, 8'000), 0) << "no load for what is there";
}

TEST(Window, NeedsThatGrowTokenByTokenCostAHandfulOfLoads) {
  const WindowReach reach{.limit = 131'072, .native = 131'072, .largest = 131'072};
  Tokens loaded = 4'096;
  int loads = 0;
  for (Tokens needed = 1; needed <= 131'072; ++needed) {
    if (needed <= loaded) continue;
    loaded = reload_target(reach, loaded, needed);
    ++loads;
  }
  EXPECT_LE(loads, 16);
}

TEST(Window, AWindowThatMemoryKeptShortIsOutgrownWhenAQuarterMoreFits) {
  const MemoryPlan now = plan_window(launch(40), 0);
  EXPECT_TRUE(outgrown(8'192, now));
  EXPECT_FALSE(outgrown(now.inputs.requested, now)) << "it has what is asked for";
  const MemoryPlan little = plan_window(launch(6), 0);
  ASSERT_TRUE(little.below_floor);
  EXPECT_FALSE(outgrown(little.context, little));
  EXPECT_FALSE(outgrown(little.context - 1'024, little)) << "not worth a load";
}

TEST(Window, NoModelIsStoppedForAWindowThatNobodyNeeds) {
  LaunchInput input = launch(40);
  input.machine.residents = {{.key = "llama-cpp:other:0", .bytes = gib(36)}};
  input.machine.committed_other = gib(36);
  const MemoryPlan now = plan_window(input, 0);
  ASSERT_FALSE(now.evicts.empty());
  EXPECT_FALSE(outgrown(4'096, now));
}

TEST(Window, AShortageNamesWhatFitsAndWhatStandsInTheWay) {
  const WindowReach reach{
      .limit = 65'536, .native = 65'536, .largest = 20'480, .binding = Binding::live_memory};
  const std::string text = window_shortage("New Model", 30'000, 8'192, reach);
  EXPECT_THAT(text, HasSubstr("65536 tokens that New Model can have"));
  EXPECT_THAT(text, HasSubstr("20480 fit now"));
  EXPECT_THAT(text, HasSubstr("free at the moment"));
  EXPECT_THAT(window_shortage("New Model", 30'000, 24'576, reach), HasSubstr("24576 fit now"));
}

TEST(Window, AShortageSaysWhoseLimitItIs) {
  WindowReach reach{.limit = 8'192, .native = 65'536, .named = true, .largest = 8'192};
  EXPECT_THAT(window_shortage("New Model", 9'000, 8'192, reach), HasSubstr("was told to give New Model"));
  reach = {.limit = 8'192, .native = 8'192, .largest = 8'192};
  EXPECT_THAT(window_shortage("New Model", 9'000, 0, reach),
              HasSubstr("longest window of New Model has 8192"));
}

}  // namespace
}  // namespace gezel::capacity
