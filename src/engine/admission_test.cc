// Who gets room, in which order, and who makes way.
#include "engine/test_admission.h"

namespace gezel::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(AdmissionTest, WhatFitsIsGrantedAtOnceAndReserved) {
  Paper a{"a", 4 * kGiB}, b{"b", 6 * kGiB};
  load(a);
  load(b);
  EXPECT_EQ(admission->broker().view().committed, kBudget);
  EXPECT_THAT(a.notices, IsEmpty());
}

TEST_F(AdmissionTest, AnEngineThatEndsGivesItsMemoryBack) {
  Paper a{"a", 8 * kGiB};
  load(a);
  a.seat.reset();
  EXPECT_EQ(admission->broker().view().committed, 0U);
}

TEST_F(AdmissionTest, AnIdleEngineIsStoppedAndItsExitAwaited) {
  Paper a{"a", 8 * kGiB}, b{"b", 8 * kGiB};
  load(a);
  ask(b);
  EXPECT_EQ(a.unloads, 1);
  EXPECT_FALSE(b.outcome) << "the memory is given back when the process is gone, not before";
  a.seat.reset();
  run();
  EXPECT_TRUE(b.seat);
}

TEST_F(AdmissionTest, Case25_TheIdleEngineWithFewerRequestsMakesRoom) {
  Paper a{"a", 5 * kGiB}, b{"b", 5 * kGiB}, c{"c", 5 * kGiB};
  a.hits = 5;
  a.idle_ms = 10'000;
  b.hits = 1;
  b.idle_ms = 2'000;
  load(a);
  load(b);
  ask(c);
  EXPECT_EQ(a.unloads, 0);
  EXPECT_EQ(b.unloads, 1);
}

TEST_F(AdmissionTest, WhatNeverFitsIsDeniedAndNobodyIsStopped) {
  Paper a{"a", 4 * kGiB}, b{"b", 11 * kGiB};
  load(a);
  ask(b);
  ASSERT_TRUE(b.outcome);
  EXPECT_EQ(b.outcome->error().error.code, "capacity-denied");
  EXPECT_EQ(a.unloads, 0);
}

TEST_F(AdmissionTest, ABusyEngineKeepsItsResidencyAndThenMakesWay) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB};
  a.idle_ms = 0;
  load(a);
  ask(b);
  EXPECT_THAT(b.notices, ElementsAre("waiting for a to finish"));
  pass(kLeastResidency - Millis(1));
  EXPECT_FALSE(a.gives_way);
  pass(kIdlePause);
  EXPECT_TRUE(a.gives_way);
  EXPECT_EQ(a.unloads, 0) << "running answers are finished";
  a.busy = false;
  admission->changed();
  run();
  EXPECT_EQ(a.unloads, 1);
  a.seat.reset();
  run();
  EXPECT_TRUE(b.seat);
}

TEST_F(AdmissionTest, WithinItsResidencyAnEngineBetweenTwoRequestsIsNotUnused) {
  Paper a{"a", 8 * kGiB}, b{"b", 8 * kGiB};
  a.idle_ms = 100;
  load(a);
  ask(b);
  EXPECT_EQ(a.unloads, 0);
  a.idle_ms = kIdlePause.count();
  pass(kIdlePause);
  EXPECT_EQ(a.unloads, 1);
}

TEST_F(AdmissionTest, WhoWaitedLongGoesBeforeALongLoadsResidency) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB};
  a.idle_ms = 0;
  ask(a);
  clock.advance(Millis(300'000));  // its load took five minutes, so it may stay that long
  a.seat->loaded(a.bytes);
  ask(b);
  pass(kLongWait - Millis(1'000));
  EXPECT_FALSE(a.gives_way);
  pass(Millis(2'000));
  EXPECT_TRUE(a.gives_way);
}

TEST_F(AdmissionTest, LoadsAreServedInTheOrderTheyCame) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB}, c{"c", kGiB};
  a.idle_ms = 0;
  load(a);
  ask(b);
  ask(c);
  EXPECT_FALSE(c.outcome) << "what is small must not take what an earlier one waits for";
  EXPECT_THAT(c.notices, ElementsAre("waiting for the loads before it"));
  a.seat.reset();
  run();
  EXPECT_TRUE(b.seat);
  EXPECT_TRUE(c.seat);
}

TEST_F(AdmissionTest, AnInteractiveLoadGoesBeforeBackgroundOnesAndBatchLast) {
  Paper a{"a", 8 * kGiB, true}, batch{"batch", 8 * kGiB}, background{"background", 8 * kGiB},
      interactive{"interactive", 8 * kGiB};
  a.idle_ms = 0;
  batch.lane = prompt::Lane::batch;
  background.lane = prompt::Lane::background;
  load(a);
  for (Paper* paper : {&batch, &background, &interactive}) ask(*paper);
  a.seat.reset();
  run();
  for (Paper* next : {&interactive, &background, &batch}) {
    ASSERT_TRUE(next->seat) << next->name;
    next->seat.reset();
    run();
  }
}

TEST_F(AdmissionTest, ABackgroundLoadThatWaitedAMinuteGoesFirstAndABatchLoadDoesNot) {
  Paper a{"a", 8 * kGiB, true}, batch{"batch", 8 * kGiB}, background{"background", 8 * kGiB},
      interactive{"interactive", 8 * kGiB};
  a.idle_ms = 0;
  batch.lane = prompt::Lane::batch;
  background.lane = prompt::Lane::background;
  ask(a);  // a load that does not end
  ask(batch);
  ask(background);
  pass(kLongWait);
  ask(interactive);
  a.seat.reset();
  run();
  ASSERT_TRUE(background.seat);
  background.seat.reset();
  run();
  EXPECT_TRUE(interactive.seat);
}

TEST_F(AdmissionTest, BackgroundWorkMakesWayAndInteractiveWorkDoesNotBeforeAMinute) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB};
  a.idle_ms = 0;
  b.lane = prompt::Lane::background;
  load(a);
  ask(b);
  pass(kLeastResidency + kIdlePause);
  EXPECT_FALSE(a.gives_way) << "what is waited for goes before what is not";
  a.lane = prompt::Lane::background;
  pass(kIdlePause);
  EXPECT_TRUE(a.gives_way) << "only background work is left to it";
  a.lane = prompt::Lane::interactive;
  admission->changed();
  run();
  EXPECT_FALSE(a.gives_way) << "an interactive request came to it";
  pass(kLongWait);
  EXPECT_TRUE(a.gives_way) << "background work never starves";
}

TEST_F(AdmissionTest, ABackgroundLoadDoesNotTakeAnEngineBetweenTwoRequests) {
  Paper a{"a", 8 * kGiB}, b{"b", 8 * kGiB};
  b.lane = prompt::Lane::background;
  load(a);
  pass(kLeastResidency);
  a.idle_ms = 100;
  ask(b);
  EXPECT_EQ(a.unloads, 0);
  a.idle_ms = kIdlePause.count();
  pass(kIdlePause);
  EXPECT_EQ(a.unloads, 1);
}

TEST_F(AdmissionTest, BatchWorkWaitsUntilAnEngineHasNothingMoreUrgent) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB};
  a.idle_ms = 0;
  b.lane = prompt::Lane::batch;
  load(a);
  ask(b);
  pass(3 * kLongWait);
  EXPECT_FALSE(a.gives_way);
  EXPECT_FALSE(b.outcome);
}

TEST_F(AdmissionTest, AnInteractiveRequestTakesItsModelsLoadAlong) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB}, c{"c", 8 * kGiB};
  a.idle_ms = 0;
  b.lane = c.lane = prompt::Lane::background;
  load(a);
  ask(b);
  ask(c);
  c.lane = prompt::Lane::interactive;
  a.seat.reset();
  run();
  EXPECT_TRUE(c.seat);
  EXPECT_FALSE(b.seat);
}

TEST_F(AdmissionTest, ALoadThatWaitsWithAnotherPlanKeepsItsAge) {
  Paper a{"a", 8 * kGiB};
  a.since = clock.now();
  admission->hold("memory is short");
  ask(a);
  pass(kLongWait);
  ASSERT_TRUE(a.outcome);
  a.outcome.reset();
  ask(a);
  EXPECT_TRUE(a.outcome) << "it waited for a minute already";
}

TEST_F(AdmissionTest, ALoadThatWaitsWithAnotherPlanKeepsItsPlace) {
  Paper a{"a", 8 * kGiB}, b{"b", 8 * kGiB};
  a.since = clock.now();
  admission->hold("memory is short");
  pass(Millis(1'000));
  ask(b);
  ask(a);
  admission->hold("");
  run();
  EXPECT_TRUE(a.seat);
  EXPECT_FALSE(b.seat);
}

TEST_F(AdmissionTest, OfTwoBusyEnginesTheOneWithBackgroundWorkMakesWay) {
  Paper a{"a", 5 * kGiB, true}, b{"b", 5 * kGiB, true}, c{"c", 5 * kGiB};
  a.idle_ms = 60'000;
  b.idle_ms = 0;
  b.lane = prompt::Lane::background;
  load(a);
  load(b);
  ask(c);
  pass(kLeastResidency + kIdlePause);
  EXPECT_TRUE(b.gives_way);
  EXPECT_FALSE(a.gives_way);
}

TEST_F(AdmissionTest, WhoMadeWayForALoadThatIsNoLongerFirstGoesOnUnlessItIsNeeded) {
  Paper a{"a", 5 * kGiB, true}, b{"b", 5 * kGiB, true}, large{"large", 10 * kGiB}, small{"small", 5 * kGiB};
  a.idle_ms = b.idle_ms = 0;
  a.lane = b.lane = large.lane = prompt::Lane::background;
  load(a);
  load(b);
  ask(large);
  pass(kLeastResidency + kIdlePause);
  EXPECT_TRUE(a.gives_way && b.gives_way);
  ask(small);
  EXPECT_NE(a.gives_way, b.gives_way) << "room for one of them is enough now";
}

TEST_F(AdmissionTest, TheMachineIsLookedAtOnceForEveryDecision) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB}, c{"c", 8 * kGiB};
  a.idle_ms = 0;
  load(a);
  ask(b);
  ask(c);
  looks = 0;
  admission->changed();
  run();
  EXPECT_EQ(looks, 1);
}

TEST_F(AdmissionTest, AFullQueueRefusesAtOnce) {
  Paper a{"a", 8 * kGiB, true};
  a.idle_ms = 0;
  load(a);
  std::deque<Paper> waiting;
  for (std::size_t i = 0; i < kMostWaitingModels; ++i)
    ask(waiting.emplace_back(fmt::format("m{}", i), 8 * kGiB));
  Paper late{"late", 8 * kGiB};
  ask(late);
  ASSERT_TRUE(late.outcome);
  EXPECT_EQ(late.outcome->error().error.code, "engine-busy");
  EXPECT_EQ(admission->waiting(), kMostWaitingModels);
}

TEST_F(AdmissionTest, AWaitThatIsGivenUpFreesTheEngineThatMadeWay) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB};
  a.idle_ms = 0;
  load(a);
  ask(b);
  pass(kLeastResidency + kIdlePause);
  ASSERT_TRUE(a.gives_way);
  b.wanted = false;
  admission->changed();
  run();
  ASSERT_TRUE(b.outcome);
  EXPECT_EQ(b.outcome->error().error.code, "cancelled");
  EXPECT_FALSE(a.gives_way);
  EXPECT_EQ(admission->waiting(), 0U);
}

TEST_F(AdmissionTest, ALoadInProgressIsWaitedFor) {
  Paper a{"a", 8 * kGiB}, b{"b", 8 * kGiB};
  ask(a);
  ask(b);
  EXPECT_FALSE(b.outcome);
  EXPECT_EQ(a.unloads, 0);
}

TEST_F(AdmissionTest, UnderMemoryPressureNothingIsLoaded) {
  Paper a{"a", kGiB};
  admission->hold("the machine is short of memory");
  ask(a);
  EXPECT_THAT(a.notices, ElementsAre("the machine is short of memory"));
  admission->hold("");
  run();
  EXPECT_TRUE(a.seat);
}

TEST_F(AdmissionTest, UnderMemoryPressureNobodyMakesWayForNothing) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB};
  a.idle_ms = 0;
  load(a);
  ask(b);
  pass(kLeastResidency + kIdlePause);
  ASSERT_TRUE(a.gives_way);
  admission->hold("the machine is short of memory");
  run();
  EXPECT_FALSE(a.gives_way) << "its requests would wait for a load that may not be made";
}

TEST_F(AdmissionTest, AnEngineThatMadeWayGoesAlthoughRequestsWaitForItsNextLoad) {
  Paper a{"a", 8 * kGiB, true}, b{"b", 8 * kGiB};
  a.idle_ms = 0;
  load(a);
  ask(b);
  pass(kLeastResidency + kIdlePause);
  ASSERT_TRUE(a.gives_way);
  a.busy = false;
  admission->unload_idle();
  EXPECT_EQ(a.unloads, 1);
}

TEST_F(AdmissionTest, WhoWaitsLongForMemoryIsToldSo) {
  Paper a{"a", kGiB};
  admission->hold("the machine is short of memory");
  ask(a);
  pass(kLongWait);
  ASSERT_TRUE(a.outcome);
  EXPECT_EQ(a.outcome->error().error.code, "capacity-denied");
  EXPECT_THAT(a.outcome->error().error.message, testing::HasSubstr("short of memory for 60 s"));
}

TEST_F(AdmissionTest, APlanForALoadedModelHasItsOwnMemoryBack) {
  Paper a{"a", 4 * kGiB};
  load(a);
  EXPECT_EQ(admission->state_for(a.seat->key()).free_ram, 20 * kGiB);
  EXPECT_EQ(admission->state_for("llama-cpp:other:0").free_ram, 16 * kGiB);
}

TEST_F(AdmissionTest, AModelWaitsForItsOwnLastProcessToBeGone) {
  Paper dying{"a", 8 * kGiB}, again{"a", 8 * kGiB};
  load(dying);
  ask(again);
  EXPECT_FALSE(again.outcome) << "two seats under one key";
  EXPECT_EQ(dying.unloads, 0);
  dying.seat.reset();
  run();
  ASSERT_TRUE(again.seat);
  EXPECT_EQ(admission->broker().view().committed, 8 * kGiB);
}

TEST_F(AdmissionTest, APlanThatTheLedgerRefusesIsDeniedAndDoesNotWait) {
  Paper a{"a", 11 * kGiB};
  a.says_it_fits = true;
  ask(a);
  ASSERT_TRUE(a.outcome);
  EXPECT_EQ(a.outcome->error().error.code, "capacity-denied");
}

TEST_F(AdmissionTest, TheWorkersOwnFigureReplacesThePlans) {
  Paper a{"a", 4 * kGiB};
  load(a);
  a.seat->loaded(3 * kGiB);
  EXPECT_EQ(admission->broker().view().committed, 3 * kGiB);
  a.seat->observed(5 * kGiB);
  EXPECT_EQ(admission->broker().view().committed, 5 * kGiB);
}

// --- further workers of a model

struct Spares : AdmissionTest {
  static Paper worker(int replica, Bytes bytes) {
    Paper out{"m", bytes};
    out.replica = replica;
    out.spare = replica > 0;
    out.hits = 5;
    return out;
  }
};

TEST_F(Spares, TakeWhatIsFree) {
  auto first = worker(0, 4 * kGiB), second = worker(1, 4 * kGiB);
  load(first);
  load(second);
  EXPECT_EQ(admission->broker().view().committed, 8 * kGiB);
}

TEST_F(Spares, NobodyMakesWayForThem) {
  auto first = worker(0, 4 * kGiB), second = worker(1, 4 * kGiB);
  Paper idle{"idle", 4 * kGiB};
  load(first);
  load(idle);
  ask(second);
  ASSERT_TRUE(second.outcome);
  EXPECT_EQ(second.outcome->error().error.code, "capacity-denied");
  EXPECT_EQ(idle.unloads, 0);
}

TEST_F(Spares, OneThatRequestsWaitForIsALoadLikeAnyOther) {
  auto second = worker(1, 8 * kGiB);
  Paper idle{"idle", 4 * kGiB};
  load(idle);
  second.spare = false;
  ask(second);
  EXPECT_EQ(idle.unloads, 1);
}

TEST_F(Spares, AreTheFirstToMakeWayHoweverMuchTheyAreUsed) {
  auto first = worker(0, 3 * kGiB), second = worker(1, 3 * kGiB);
  Paper idle{"idle", 3 * kGiB}, next{"next", 3 * kGiB};
  load(first);
  load(second);
  load(idle);
  ask(next);
  EXPECT_EQ(second.unloads, 1);
  EXPECT_EQ(first.unloads + idle.unloads, 0);
}

TEST_F(Spares, TheLastWorkerOfAModelIsNoSpare) {
  auto second = worker(1, 5 * kGiB);
  Paper idle{"idle", 5 * kGiB}, next{"next", 3 * kGiB};
  load(second);
  load(idle);
  ask(next);
  EXPECT_EQ(second.unloads, 0) << "the other one was used less";
  EXPECT_EQ(idle.unloads, 1);
}

TEST_F(Spares, UnderMemoryPressureNoneIsLoadedAndIdleOnesGo) {
  auto first = worker(0, 3 * kGiB), second = worker(1, 3 * kGiB), third = worker(2, 3 * kGiB);
  first.busy = true;
  load(first);
  load(second);
  admission->hold("memory is short");
  ask(third);
  EXPECT_TRUE(third.outcome) << "nobody waits for it, so it does not wait either";
  admission->unload_idle();
  EXPECT_EQ(first.unloads, 0);
  EXPECT_EQ(second.unloads, 1);
}

TEST_F(Spares, AreNotLoadedBeforeWhatSomebodyWaitsFor) {
  make(true);  // so that both wait
  Paper loading{"loading", 2 * kGiB}, wanted{"wanted", 7 * kGiB};
  auto second = worker(1, 8 * kGiB);
  loading.busy = true;
  ask(loading);
  ask(second);
  wanted.lane = prompt::Lane::background;
  ask(wanted);
  EXPECT_FALSE(second.outcome || wanted.outcome);
  loading.seat->loaded(2 * kGiB);
  run();
  ASSERT_TRUE(wanted.seat);
  wanted.seat->loaded(7 * kGiB);
  run();
  ASSERT_TRUE(second.outcome);
  EXPECT_FALSE(second.seat);
}

TEST_F(Spares, ALookAheadAtAModelLeavesOutAllItsWorkers) {
  auto first = worker(0, 3 * kGiB), second = worker(1, 3 * kGiB);
  Paper other{"other", kGiB};
  load(first);
  load(second);
  load(other);
  const auto load_of_first = admission->state_for("llama-cpp:m:0");
  EXPECT_EQ(load_of_first.committed_other, 4 * kGiB);
  const auto ahead = admission->state_without_model("llama-cpp:m:0");
  EXPECT_EQ(ahead.committed_other, kGiB);
  ASSERT_EQ(ahead.residents.size(), 1u);
  EXPECT_EQ(ahead.residents[0].key, "llama-cpp:other:0");
}

// --- one load at a time (macOS)

TEST_F(AdmissionTest, LoadsOneAfterTheOtherWhereTheyMustNotOverlap) {
  make(true);
  Paper a{"a", 2 * kGiB}, b{"b", 2 * kGiB};
  ask(a);
  ask(b);
  EXPECT_TRUE(a.seat);
  EXPECT_FALSE(b.seat) << "there is room, but a is not loaded yet";
  EXPECT_THAT(b.notices, ElementsAre("waiting for another load"));
  const int before = looks;
  a.seat->loaded(2 * kGiB);
  run();
  EXPECT_TRUE(b.seat);
  EXPECT_GT(looks, before) << "its plan was made after the other load had finished";
}

TEST_F(AdmissionTest, ALoadThatFailsLetsTheNextOneGo) {
  make(true);
  Paper a{"a", 2 * kGiB}, b{"b", 2 * kGiB};
  ask(a);
  ask(b);
  a.seat.reset();
  run();
  EXPECT_TRUE(b.seat);
}

TEST(SerializeLoads, OnMacosUnlessSwitchedOffElsewhereOnlyWhenSwitchedOn) {
  EXPECT_TRUE(serialize_loads(true, ""));
  EXPECT_TRUE(serialize_loads(true, "on"));
  EXPECT_TRUE(serialize_loads(true, "maybe"));
  EXPECT_FALSE(serialize_loads(true, "off"));
  EXPECT_FALSE(serialize_loads(false, ""));
  EXPECT_FALSE(serialize_loads(false, "off"));
  EXPECT_TRUE(serialize_loads(false, "on"));
}

}  // namespace
}  // namespace gezel::engine
