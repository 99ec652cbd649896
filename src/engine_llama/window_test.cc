// Requests that need a longer window than is loaded.
#include <gmock/gmock.h>

#include "engine_llama/test_windows.h"

namespace gezel::engine_llama {
namespace {

using testing::HasSubstr;

TEST_F(Windows, ARequestThatAsksForMoreThanIsLoadedGetsItFromAnIdleEngine) {
  const auto window = load_short();
  free = kPlenty;
  auto client = wish(window + 1);
  EXPECT_TRUE(was_stopped());
  stop_worker();
  EXPECT_GT(load(), window);
  ASSERT_EQ(generates.size(), 1U);
  worker().done(generates[0].id);
  settle();
  read(client);
  EXPECT_TRUE(client.last<engine::Done>());
}

TEST_F(Windows, ARequestThatAsksForLessIsAnsweredWithWhatIsLoaded) {
  const auto window = load_short();
  free = kPlenty;
  auto client = wish(window);
  EXPECT_FALSE(reloads());
  EXPECT_EQ(take().size(), 1U);
}

TEST_F(Windows, ABusyEngineIsLoadedAgainWhenItsAnswersAreDone) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  const auto id = take().at(0).id;
  auto client = wish(window + 1);
  auto late = ask();
  EXPECT_FALSE(was_stopped());
  EXPECT_TRUE(take().empty()) << "nothing new goes to a worker that is to be loaded again";
  EXPECT_THAT(engine->status().waiting, HasSubstr("longer window"));
  worker().done(id);
  settle();
  EXPECT_TRUE(was_stopped());
  read(running);
  EXPECT_TRUE(running.last<engine::Done>());
  stop_worker();
  EXPECT_GT(load(), window);
  EXPECT_EQ(generates.size(), 2U);
  EXPECT_EQ(engine->status().waiting, "");
}

TEST_F(Windows, WhatDoesNotFitIsRefusedWithEveryNumberAndNothingIsLoaded) {
  const auto window = load_short();
  auto client = wish(kNative);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "capacity-denied");
  EXPECT_EQ(error.error.param, "num_ctx");
  ASSERT_TRUE(error.window);
  EXPECT_EQ(error.window->needed, kNative);
  EXPECT_EQ(error.window->granted, window);
  EXPECT_EQ(error.window->native, kNative);
  EXPECT_EQ(error.window->limit, kNative);
  EXPECT_EQ(error.window->largest, window);
  EXPECT_EQ(error.window->binding, "live-memory");
  EXPECT_THAT(error.error.message, HasSubstr(std::to_string(window)));
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, MoreThanTheModelsOwnWindowIsRefusedForGood) {
  load_short();
  free = kPlenty;
  auto client = wish(kNative + 1);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "context-overflow");
  EXPECT_EQ(error.retry, engine::Retry::never);
  EXPECT_EQ(error.window->limit, kNative);
  EXPECT_THAT(error.error.message, HasSubstr("32768"));
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, MoreThanTheServiceWasToldIsRefusedBeforeALoad) {
  capacity->settings.context.model_override = 4'096;
  make();
  auto client = wish(8'192);
  EXPECT_EQ(launches(), 0U);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "context-overflow");
  EXPECT_EQ(error.window->limit, 4'096);
  EXPECT_EQ(error.window->native, kNative);
  EXPECT_THAT(error.error.message, HasSubstr("was told"));
}

TEST_F(Windows, AModelThatIsNotLoadedIsLoadedWithWhatIsAskedFor) {
  free = kPlenty;
  capacity->settings.kv_ceiling = kGiB;
  capacity->model.native = 131'072;
  make();
  auto client = wish(100'000);
  worker().exit({1, 0});
  EXPECT_GE(load(), 100'000);
  EXPECT_EQ(generates.size(), 1U);
}

TEST_F(Windows, TheLargerOfTwoNeedsIsLoadedOnce) {
  const auto window = load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  free = kPlenty;
  auto small = wish(window + 1'000);
  auto large = wish(kNative);
  worker().done(id);
  settle();
  stop_worker();
  EXPECT_EQ(load(), kNative);
  EXPECT_EQ(generates.size(), 2U);
  EXPECT_EQ(launches(), loads + 1);
}

TEST_F(Windows, OfTwoNeedsTheOneThatFitsIsLoadedAndTheOtherRefused) {
  free = kShort;
  make();
  auto small = wish(5'000);
  auto large = wish(kNative);
  worker().exit({1, 0});
  EXPECT_GE(load(), 5'000);
  EXPECT_EQ(generates.size(), 1U);
  EXPECT_EQ(error_of(large).error.code, "capacity-denied");
  EXPECT_EQ(launches(), 2U) << "the one measurement and the one load";
}

TEST_F(Windows, AFurtherNeedThatComesWhileALoadWaitsIsMetByThatLoad) {
  free = kShort;
  make();
  admission->hold("memory is short");
  auto small = wish(5'000);
  worker().exit({1, 0});
  settle();
  EXPECT_EQ(launches(), 1U);
  free = kPlenty;
  auto large = wish(kNative);
  admission->hold("");
  settle();
  EXPECT_EQ(load(), kNative);
  EXPECT_EQ(generates.size(), 2U);
  EXPECT_EQ(launches(), 2U);
}

TEST_F(Windows, APromptThatIsTooLongIsSentAgainWhenTheModelHasALongerWindow) {
  const auto window = load_short();
  free = kPlenty;
  auto client = ask();
  const auto sent = take();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].window_possible, kNative) << "the worker knows how far it could go";
  overflow(sent[0].id, window + 500, window + 756);
  stop_worker();
  EXPECT_GE(load(), window + 756);
  ASSERT_EQ(generates.size(), 1U);
  EXPECT_EQ(generates[0].id, sent[0].id);
  worker().done(sent[0].id);
  settle();
  read(client);
  EXPECT_TRUE(client.last<engine::Done>());
}

TEST_F(Windows, APromptThatIsTooLongForAnyWindowIsRefusedWithWhatIsMissing) {
  const auto window = load_short();
  auto client = ask();
  const auto sent = take();
  EXPECT_EQ(sent[0].window_possible, 0);
  overflow(sent[0].id, window + 500, window + 756);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "context-overflow");
  EXPECT_EQ(error.http_hint, 400);
  EXPECT_EQ(error.prompt_tokens, window + 500);
  EXPECT_EQ(error.context_tokens, window);
  EXPECT_EQ(error.window->needed, window + 756);
  EXPECT_THAT(error.error.message, HasSubstr("the prompt is too long"));
  EXPECT_THAT(error.error.message, HasSubstr("fit now"));
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, ALongAnswerSettlesForWhatIsLoadedWhenTheLongerWindowIsGone) {
  load_short();
  free = kPlenty;
  auto client = ask();
  const auto sent = take();
  free = kShort;  // somebody else took it
  overflow(sent[0].id, 10, kNative);
  EXPECT_FALSE(reloads());
  const auto again = take();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].id, sent[0].id);
  EXPECT_EQ(again[0].window_possible, 0);
}

TEST_F(Windows, ALongAnswerSettlesForWhatALoadGotWhenThatIsLessThanWasPlanned) {
  const auto window = load_short();
  free = kPlenty;
  auto client = ask();
  const auto sent = take();
  overflow(sent.at(0).id, 10, kNative);
  stop_worker();
  load(window);
  ASSERT_EQ(generates.size(), 1U);
  EXPECT_EQ(generates[0].window_possible, 0);
}

TEST_F(Windows, ANeedThatALoadDidNotMeetIsNotTriedAgainAtOnce) {
  const auto window = load_short();
  free = kPlenty;
  auto client = wish(kNative);
  stop_worker();
  load(window);  // the worker got less than was planned
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
  loads = launches();
  auto again = wish(kNative);
  EXPECT_EQ(error_of(again).error.code, "capacity-denied");
  EXPECT_FALSE(reloads());
  advance_alive(kMissedPause);
  auto later = wish(kNative);
  EXPECT_TRUE(reloads());
}

TEST_F(Windows, AReloadThatNobodyNeedsAnyMoreIsGivenUp) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  take();
  auto client = wish(window + 1);
  auto late = ask();
  EXPECT_TRUE(take().empty());
  client.generation.reset();
  settle();
  EXPECT_EQ(take().size(), 1U) << "what was held back goes on";
  EXPECT_FALSE(reloads());
  EXPECT_EQ(engine->status().waiting, "");
}

}  // namespace
}  // namespace gezel::engine_llama
