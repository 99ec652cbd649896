#include "scheduler/scheduler.h"

#include "scheduler/test_scheduler.h"

namespace gezel::scheduler {
namespace {

TEST_F(SchedulerTest, ProducesTheTextOfTheModel) {
  make(1);
  scheduler_->submit(spec(1, words(100, 1)));
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(100, 1), 10));
  EXPECT_TRUE(sink_.done[1].length);
  EXPECT_EQ(sink_.done[1].prompt_tokens, 100);
  EXPECT_EQ(sink_.done[1].completion_tokens, 10);
}

TEST_F(SchedulerTest, ManyRunsAtOnceDoNotDisturbEachOther) {
  make(4);
  for (RunId id = 1; id <= 9; ++id)
    scheduler_->submit(spec(id, words(50 + static_cast<int>(id) * 37, static_cast<int>(id)), 20));
  run_all();
  for (RunId id = 1; id <= 9; ++id) {
    EXPECT_EQ(sink_.text[id], expected_text(words(50 + static_cast<int>(id) * 37, static_cast<int>(id)), 20))
        << id;
  }
}

TEST_F(SchedulerTest, StopsAtTheEndTokenWithoutPrintingIt) {
  make(1);
  scheduler_->submit(spec(1, {5, 63}));
  run_all();
  EXPECT_EQ(sink_.text[1], "");
  EXPECT_FALSE(sink_.done[1].length);
}

TEST_F(SchedulerTest, ContinuingConversationReusesItsCells) {
  make(2);
  std::vector<Token> prompt = words(200, 3);
  scheduler_->submit(spec(1, prompt, 20));
  run_all();
  // Spec 40, case 39: the last token was returned but never fed.
  std::vector<Token> next = prompt;
  for (const char c : sink_.text[1]) next.push_back(c - '!');
  for (const Token token : words(30, 4)) next.push_back(token);
  scheduler_->submit(spec(2, next, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 219);
  EXPECT_EQ(sink_.text[2], expected_text(next, 5));
}

TEST_F(SchedulerTest, AFullyCachedPromptComputesOneToken) {
  make(1);
  scheduler_->submit(spec(1, words(500, 3), 1));
  run_all();
  scheduler_->submit(spec(2, words(500, 3), 1));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 499);
  EXPECT_EQ(sink_.text[2], sink_.text[1]);
}

TEST_F(SchedulerTest, ANewConversationLeavesAnotherOnesSlotAlone) {
  make(2);
  std::vector<Token> system = words(100, 1);
  std::vector<Token> first = system, second = system;
  for (const Token token : words(200, 2)) first.push_back(token);
  for (const Token token : words(200, 3)) second.push_back(token);
  scheduler_->submit(spec(1, first, 5));
  run_all();
  scheduler_->submit(spec(2, second, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 0) << "an empty slot is taken although the other one shares a head";
  scheduler_->submit(spec(3, first, 5));
  run_all();
  EXPECT_GE(sink_.done[3].cached_tokens, 299);
}

TEST_F(SchedulerTest, TakesTheLeastRecentlyUsedSlotAndKeepsWhatItShares) {
  make(2);
  std::vector<Token> system = words(100, 1);
  const auto prompt = [&](int seed) {
    std::vector<Token> out = system;
    for (const Token token : words(200, seed)) out.push_back(token);
    return out;
  };
  for (const int seed : {2, 3}) {
    scheduler_->submit(spec(static_cast<RunId>(seed), prompt(seed), 5));
    run_all();
  }
  scheduler_->submit(spec(4, prompt(4), 5));
  run_all();
  EXPECT_EQ(sink_.done[4].cached_tokens, 100);
  EXPECT_EQ(sink_.text[4], expected_text(prompt(4), 5));
  scheduler_->submit(spec(5, prompt(3), 5));
  run_all();
  EXPECT_GE(sink_.done[5].cached_tokens, 299) << "the more recent conversation was kept";
}

TEST_F(SchedulerTest, RecurrentMemoryIsReusedOnlyAtItsEnd) {
  make(1, 4096, {.recurrent = true});
  decoder_->uncuttable = true;
  std::vector<Token> prompt = words(100, 1);
  scheduler_->submit(spec(1, prompt, 5));
  run_all();
  std::vector<Token> longer = prompt;
  for (const char c : sink_.text[1].substr(0, 4)) longer.push_back(c - '!');
  std::vector<Token> other = prompt;
  other.resize(80);
  other.push_back(7);
  longer.push_back(9);
  scheduler_->submit(spec(2, longer, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 104);
  scheduler_->submit(spec(3, other, 5));
  run_all();
  EXPECT_EQ(sink_.done[3].cached_tokens, 0);
  EXPECT_EQ(sink_.text[3], expected_text(other, 5));
}

TEST_F(SchedulerTest, SlidingWindowIsReusedOnlyWhereTheWindowIsStillThere) {
  make(1, 4096, {.sliding_window = 50});
  scheduler_->submit(spec(1, words(300, 1), 5));
  run_all();
  std::vector<Token> other = words(300, 1);
  other.resize(200);
  for (const Token token : words(20, 9)) other.push_back(token);
  decoder_->window_start = 250;
  scheduler_->submit(spec(2, other, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 0);
  EXPECT_EQ(sink_.text[2], expected_text(other, 5));
}

TEST_F(SchedulerTest, LiveStreamsAdvanceBetweenTheChunksOfALongPrompt) {
  make(2);
  scheduler_->submit(spec(1, words(20, 1), 200));
  scheduler_->step();
  scheduler_->submit(spec(2, words(2000, 2), 5));
  const std::size_t before = sink_.text[1].size();
  int steps = 0;
  while (!sink_.text.contains(2)) {
    scheduler_->step();
    ++steps;
  }
  EXPECT_GT(steps, 5);
  EXPECT_GE(sink_.text[1].size() - before, static_cast<std::size_t>(steps) - 1);
  run_all();
  EXPECT_EQ(sink_.text[2], expected_text(words(2000, 2), 5));
}

TEST_F(SchedulerTest, ReportsThePlaceInTheQueue) {
  make(1);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(50, static_cast<int>(id)), 5));
  EXPECT_EQ(sink_.queued[2], 0);
  EXPECT_EQ(sink_.queued[3], 1);
  EXPECT_EQ(scheduler_->statistics().queued, 2);
}

TEST_F(SchedulerTest, InteractiveRequestsGoBeforeBackgroundOnes) {
  make(1);
  scheduler_->submit(spec(1, words(50, 1), 5));
  RunSpec background = spec(2, words(50, 2), 5);
  background.lane = prompt::Lane::background;
  scheduler_->submit(std::move(background));
  scheduler_->submit(spec(3, words(50, 3), 5));
  EXPECT_EQ(sink_.queued[3], 0);
  EXPECT_EQ(sink_.queued[2], 1);
}

TEST_F(SchedulerTest, AStarvingBackgroundRequestGoesFirst) {
  make(1);
  scheduler_->submit(spec(1, words(50, 1), 5));
  RunSpec background = spec(2, words(50, 2), 5);
  background.lane = prompt::Lane::background;
  scheduler_->submit(std::move(background));
  clock_.advance(Millis(61'000));
  scheduler_->submit(spec(3, words(50, 3), 5));
  EXPECT_EQ(sink_.queued[2], 0);
}

TEST_F(SchedulerTest, ABatchRequestNeverStarves) {
  make(1);
  scheduler_->submit(spec(1, words(50, 1), 5));
  RunSpec batch = spec(2, words(50, 2), 5);
  batch.lane = prompt::Lane::batch;
  scheduler_->submit(std::move(batch));
  clock_.advance(Millis(61'000));
  scheduler_->submit(spec(3, words(50, 3), 5));
  EXPECT_EQ(sink_.queued[3], 0);
  EXPECT_EQ(sink_.queued[2], 1);
}

TEST_F(SchedulerTest, CancelFreesTheSlotAndKeepsItsCells) {
  make(1);
  scheduler_->submit(spec(1, words(100, 1), 1000));
  for (int i = 0; i < 10; ++i) scheduler_->step();
  scheduler_->cancel(1);
  EXPECT_EQ(sink_.failed[1], RunError::cancelled);
  EXPECT_FALSE(scheduler_->runnable());
  scheduler_->submit(spec(2, words(100, 1), 5));
  run_all();
  EXPECT_GE(sink_.done[2].cached_tokens, 99);
}

TEST_F(SchedulerTest, CancelOfAnUnknownRunIsNothing) {
  make(1);
  scheduler_->cancel(77);
  EXPECT_TRUE(sink_.failed.empty());
}

TEST_F(SchedulerTest, APausedRunKeepsItsPlaceAndItsText) {
  make(2);
  scheduler_->submit(spec(1, words(30, 1), 20));
  scheduler_->step();
  scheduler_->pause(1, true);
  EXPECT_FALSE(scheduler_->runnable());
  scheduler_->submit(spec(2, words(30, 2), 20));
  run_all();
  scheduler_->pause(1, false);
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(30, 1), 20));
}

TEST_F(SchedulerTest, AFullWindowEndsTheRunWithLength) {
  make(1, 64);
  scheduler_->submit(spec(1, words(60, 1), std::nullopt));
  run_all();
  EXPECT_TRUE(sink_.done[1].length);
  EXPECT_EQ(sink_.text[1], expected_text(words(60, 1), 5))
      << "four cells are left, the fifth token is never fed";
}

TEST_F(SchedulerTest, B07StopStringEndsBeforeTheMatchAndIsNoLimit) {
  make(1);
  const std::string all = expected_text(words(40, 1), 12);
  RunSpec run = spec(1, words(40, 1), 50);
  run.stop = {all.substr(6, 3)};
  scheduler_->submit(std::move(run));
  run_all();
  EXPECT_EQ(sink_.text[1], all.substr(0, all.find(all.substr(6, 3))));
  EXPECT_FALSE(sink_.done[1].length);
}

TEST_F(SchedulerTest, AnAbortedPromptGoesOnWhereItStopped) {
  make(1);
  decoder_->abort_after = 300;
  scheduler_->submit(spec(1, words(1000, 1), 5));
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(1000, 1), 5));
}

TEST_F(SchedulerTest, OneRefusedRunDoesNotEndTheOthers) {
  make(3);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 20));
  for (int i = 0; i < 6; ++i) scheduler_->step();
  decoder_->refused_slots = {1};
  scheduler_->step();
  EXPECT_EQ(sink_.failed.size(), 1u);
  decoder_->refused_slots.clear();
  run_all();
  EXPECT_EQ(sink_.done.size(), 2u);
  for (const auto& [id, result] : sink_.done) {
    EXPECT_EQ(sink_.text[id], expected_text(words(30, static_cast<int>(id)), 20));
  }
}

TEST_F(SchedulerTest, ABackendThatFailsWhileTheOffenderIsSoughtEndsEveryRun) {
  make(3);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 20));
  for (int i = 0; i < 6; ++i) scheduler_->step();
  decoder_->refused_slots = {0, 1, 2};
  decoder_->code_after_refusal = llama::DecodeCode::failed;
  scheduler_->step();
  EXPECT_TRUE(scheduler_->poisoned());
  EXPECT_EQ(sink_.failed.size(), 3u);
}

TEST_F(SchedulerTest, AnAbortedDecodeCallIsRepeated) {
  make(1);
  scheduler_->submit(spec(1, words(30, 1), 20));
  for (int i = 0; i < 5; ++i) scheduler_->step();
  decoder_->abort_after = static_cast<std::size_t>(decoder_->position_max(0)) + 2;
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(30, 1), 20));
}

TEST_F(SchedulerTest, ARunWithoutAnyPossibleTokenFailsInsteadOfStopping) {
  make(1);
  decoder_->nonsense = true;
  scheduler_->submit(spec(1, words(30, 1), 20));
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::internal);
  EXPECT_TRUE(sink_.done.empty());
}

TEST_F(SchedulerTest, AFailedBackendEndsEveryRun) {
  make(2);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 20));
  scheduler_->step();
  decoder_->next_code = llama::DecodeCode::failed;
  scheduler_->step();
  EXPECT_TRUE(scheduler_->poisoned());
  EXPECT_EQ(sink_.failed.size(), 3u);
  EXPECT_FALSE(scheduler_->runnable());
}

TEST_F(SchedulerTest, RandomCancelsNeverLeakARunOrACell) {
  make(3, 512);
  std::mt19937 random(5);
  RunId id = 0;
  for (int round = 0; round < 3000; ++round) {
    if (random() % 3 == 0) {
      scheduler_->submit(spec(++id,
                              words(1 + static_cast<int>(random() % 400), static_cast<int>(random() % 6)),
                              1 + static_cast<std::int64_t>(random() % 40)));
    }
    if (id > 0 && random() % 4 == 0) scheduler_->cancel(1 + random() % id);
    if (scheduler_->runnable()) scheduler_->step();
  }
  run_all();
  EXPECT_EQ(scheduler_->statistics().sequences, 0);
  EXPECT_EQ(sink_.done.size() + sink_.failed.size(), id);
  std::int64_t cells = 0;
  for (int slot = 0; slot < 3; ++slot) cells += decoder_->position_max(slot) + 1;
  EXPECT_EQ(scheduler_->statistics().cells_used, cells);
}

}  // namespace
}  // namespace gezel::scheduler
