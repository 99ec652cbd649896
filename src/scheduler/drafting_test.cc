// Drafts must change how fast a text comes and nothing else.
#include "scheduler/test_drafts.h"

namespace gezel::scheduler {
namespace {

class DraftingTest : public SchedulerTest {
 protected:
  void start(int slots, Token (*rule)(const std::vector<Token>&), Options options = {},
             std::int64_t context = 4096) {
    options.max_outputs = slots + 64;
    make(slots, context, options);
    decoder_->rule = rule;
    decoder_->rows_cost_nothing = true;
  }
};

TEST_F(DraftingTest, TextThatRepeatsComesInFewerCalls) {
  start(1, circle);
  scheduler_->submit(spec(1, words(40, 1), 200));
  run_all();
  EXPECT_EQ(sink_.text[1], text_by(circle, words(40, 1), 200));
  EXPECT_LT(decoder_->calls, 60);
}

TEST_F(DraftingTest, WithoutSpeculationEveryTokenIsACall) {
  Options options;
  options.speculation = false;
  start(1, circle, options);
  scheduler_->submit(spec(1, words(40, 1), 200));
  run_all();
  EXPECT_EQ(decoder_->calls, 200);
}

TEST_F(DraftingTest, DraftsThatFailInTheMiddleLeaveNoTrace) {
  start(1, stumbling_circle);
  scheduler_->submit(spec(1, words(40, 1), 300));
  run_all();
  EXPECT_EQ(sink_.text[1], text_by(stumbling_circle, words(40, 1), 300));
  EXPECT_GT(sink_.done[1].drafted_tokens, sink_.done[1].accepted_tokens);
  EXPECT_GT(sink_.done[1].accepted_tokens, 0U);
}

TEST_F(DraftingTest, ManyRunsAtOnceKeepTheirTexts) {
  start(4, stumbling_circle);
  for (RunId id = 1; id <= 9; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 150));
  run_all();
  for (RunId id = 1; id <= 9; ++id)
    EXPECT_EQ(sink_.text[id], text_by(stumbling_circle, words(30, static_cast<int>(id)), 150)) << id;
}

TEST_F(DraftingTest, NothingIsSaidBeyondTheLimit) {
  for (const int limit : {1, 2, 3, 7, 64}) {
    start(1, circle);
    const auto id = static_cast<RunId>(limit);
    scheduler_->submit(spec(id, words(60, 1), limit));
    run_all();
    EXPECT_EQ(sink_.done[id].completion_tokens, limit);
    EXPECT_EQ(sink_.text[id], text_by(circle, words(60, 1), limit));
  }
}

TEST_F(DraftingTest, AFullWindowIsNotExceeded) {
  // The decoder of the tests refuses positions behind the window.
  start(1, circle, {}, 128);
  scheduler_->submit(spec(1, words(60, 1), std::nullopt));
  run_all();
  EXPECT_TRUE(sink_.done[1].length);
  EXPECT_EQ(sink_.text[1], text_by(circle, words(60, 1), 69));
}

TEST_F(DraftingTest, AStopStringInsideADraftEndsTheText) {
  start(1, circle);
  auto run = spec(1, words(60, 1), 200);
  const std::string whole = text_by(circle, words(60, 1), 200);
  run.stop = {whole.substr(90, 3) + whole.substr(93, 1)};
  const std::size_t end = whole.find(run.stop.front());
  scheduler_->submit(std::move(run));
  run_all();
  EXPECT_EQ(sink_.text[1], whole.substr(0, end));
}

TEST_F(DraftingTest, TheNextTurnReusesExactlyWhatWasSaid) {
  start(1, stumbling_circle);
  const auto prompt = words(40, 1);
  scheduler_->submit(spec(1, prompt, 100));
  run_all();
  auto said = prompt;
  for (int i = 0; i < 100; ++i) said.push_back(stumbling_circle(said));
  scheduler_->submit(spec(2, said + words(10, 7), 20));
  run_all();
  EXPECT_GE(sink_.cached[2], 139);
  EXPECT_EQ(sink_.text[2], text_by(stumbling_circle, said + words(10, 7), 20));
}

TEST_F(DraftingTest, SampledTextIsTheSameForTheSameSeed) {
  const auto sample = [&](bool speculation) {
    Options options;
    options.speculation = speculation;
    start(1, stumbling_circle, options);
    sampling::SamplingParams params;
    params.temperature = 4;  // the other tokens are likely enough to come up
    params.seed = 5;
    RunSpec run = spec(1, words(40, 1), 400);
    run.sampler = sampling::Sampler(params, view_);
    sink_ = {};
    scheduler_->submit(std::move(run));
    run_all();
    return sink_.text[1];
  };
  EXPECT_EQ(sample(true), sample(false));
}

TEST_F(DraftingTest, MemoryThatCannotBeCutIsLeftAloneWhereNothingLeadsBack) {
  Options options;
  options.recurrent = true;
  start(1, circle, options);
  decoder_->uncuttable = true;
  scheduler_->submit(spec(1, words(40, 1), 100));
  run_all();
  EXPECT_EQ(sink_.done[1].drafted_tokens, 0U);
}

TEST_F(DraftingTest, WhereRowsCostAsMuchAsCallsItStopsDrafting) {
  start(1, circle);
  decoder_->rows_cost_nothing = false;
  scheduler_->submit(spec(1, words(40, 1), 600));
  run_all();
  EXPECT_LT(sink_.done[1].drafted_tokens, 200U);
}

TEST_F(DraftingTest, ASlowModelIsDraftedForWhereOneRunIsAlone) {
  Options options;
  options.target_itl_ms = 1;  // as much as a call takes here
  start(1, circle, options);
  scheduler_->submit(spec(1, words(40, 1), 100));
  run_all();
  EXPECT_GT(sink_.done[1].drafted_tokens, 0U);
}

TEST_F(DraftingTest, WhereOthersWaitASlowModelIsNotDraftedFor) {
  Options options;
  options.target_itl_ms = 1;
  start(2, circle, options);
  scheduler_->submit(spec(1, words(40, 1), 100));
  scheduler_->submit(spec(2, words(40, 2), 400));
  while (!sink_.done.contains(1)) scheduler_->step();
  EXPECT_EQ(sink_.done[1].drafted_tokens, 0U);
}

TEST_F(DraftingTest, WhatAnotherRunWroteIsDraftedToo) {
  start(1, circle);
  scheduler_->submit(spec(1, words(40, 1), 100));
  run_all();
  const int before = decoder_->calls;
  // Its own text has no repetition to look up within 19 tokens.
  scheduler_->submit(spec(2, {30, 31, 32, 1, 2, 3, 4, 5, 6, 7, 8}, 12));
  run_all();
  EXPECT_LT(decoder_->calls - before, 8);
}

}  // namespace
}  // namespace gezel::scheduler
