// Windows and scarce memory: when a model is not stopped for a longer window, and when a window that memory
// kept short is loaded again.
#include "engine_llama/test_windows.h"

namespace gezel::engine_llama {
namespace {

TEST_F(Windows, NothingIsStoppedForAWindowWhileMemoryIsShort) {
  const auto window = load_short();
  free = kPlenty;
  admission->hold("memory is short");
  auto client = wish(window + 1);
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, AReloadIsGivenUpWhenMemoryBecomesShortBeforeIt) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  const auto id = take().at(0).id;
  auto client = wish(window + 1);
  auto late = ask();
  admission->hold("memory is short");
  worker().done(id);
  settle();
  EXPECT_FALSE(reloads());
  EXPECT_EQ(take().size(), 1U) << "what was held back goes on";
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
}

TEST_F(Windows, NothingIsStoppedForAWindowWhileAnotherModelWaitsForMemory) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  const auto id = take().at(0).id;
  auto client = wish(window + 1);
  auto other = enter_other();
  worker().done(id);
  settle();
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
  EXPECT_FALSE(reloads());
  other->wanted = false;
  admission->changed();
  settle();
}

TEST_F(Windows, AModelThatWasToMakeWayWhileItsProcessDiedWorksAfterItsNextLoad) {
  load_short();
  worker().dies_on_kill = false;
  auto died = launcher->workers.back();
  died->hang_up();
  settle();
  advance(kExitWait);
  auto other = enter_other();
  advance(engine::kLeastResidency);
  auto client = ask();
  settle();
  EXPECT_EQ(launches(), loads) << "its memory is not free yet";
  died->tell({0, SIGKILL});
  settle();
  ASSERT_TRUE(other->seat);
  other->seat.reset();
  load();
  EXPECT_EQ(generates.size(), 1U);
}

TEST_F(Windows, AWaitThatEndsLeavesAloneWhatThatLetsGo) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  take();
  terms.wait_limit = Millis(10'000);
  auto need = wish(window + 1);
  auto late = ask();
  advance_alive(Millis(12'000));
  EXPECT_EQ(error_of(need).error.code, "engine-busy");
  const auto sent = take();
  ASSERT_EQ(sent.size(), 1U) << "nobody needs the reload any more";
  worker().done(sent[0].id);
  settle();
  read(late);
  EXPECT_TRUE(late.last<engine::Done>());
}

TEST_F(Windows, AWindowThatMemoryKeptShortIsLoadedAgainWhenThereIsMore) {
  const auto window = load_short();
  EXPECT_EQ(engine->status().stale, "");
  free = kPlenty;
  EXPECT_EQ(engine->status().stale, "window");
  advance_alive(engine::kLeastResidency);
  auto client = ask();
  stop_worker();
  EXPECT_EQ(load(), kNative);
  EXPECT_EQ(generates.size(), 1U);
  EXPECT_EQ(engine->status().stale, "");
  EXPECT_FALSE(engine->status().below_floor);
  EXPECT_GT(kNative, window);
}

TEST_F(Windows, AShortWindowThatALoadDidNotMakeLongerIsGivenTime) {
  options.idle_timeout = Millis(0);
  load_short();
  free = kPlenty;
  advance_alive(engine::kLeastResidency);
  auto client = ask();
  free = kShort;  // somebody else took it
  stop_worker();
  load();
  worker().done(generates.at(0).id);
  free = kPlenty;
  loads = launches();
  advance_alive(kGrowPause - Millis(2'000));
  auto next = ask();
  EXPECT_FALSE(reloads());
  worker().done(take().at(0).id);
  advance_alive(Millis(2'000));
  auto later = ask();
  EXPECT_TRUE(reloads());
}

TEST_F(Windows, AShortWindowOfABusyEngineStays) {
  load_short();
  auto running = ask();
  take();
  free = kPlenty;
  advance_alive(engine::kLeastResidency);
  auto client = ask();
  EXPECT_FALSE(reloads());
  EXPECT_EQ(take().size(), 1U);
}

TEST_F(Windows, ALittleMoreMemoryIsNotWorthALoad) {
  load_short();
  free = kShort + 128 * kMiB;
  advance_alive(engine::kLeastResidency);
  EXPECT_EQ(engine->status().stale, "");
  auto client = ask();
  EXPECT_FALSE(reloads());
}

}  // namespace
}  // namespace gezel::engine_llama
