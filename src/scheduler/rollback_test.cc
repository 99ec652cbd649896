// Drafts for models whose memory cannot be cut at any token: what a failed draft left there is undone by
// going back to where the call began.
#include <numeric>

#include "scheduler/test_drafts.h"

namespace gezel::scheduler {
namespace {

using kvcache::Mode;

class RollbackTest : public SchedulerTest, public testing::WithParamInterface<Mode> {
 protected:
  void make_cache(int slots) override {
    decoder_->mode = GetParam();
    decoder_->uncuttable = true;
    CacheOptions options;
    options.mode = GetParam();
    options.slots = slots;
    options.host_budget = 64 * kMiB;
    cache_ = std::make_unique<PrefixCache>(options, *decoder_, nullptr, clock_);
    cache_->open(GetParam() == Mode::recurrent ? std::nullopt : std::optional(fake_layout(GetParam())),
                 static_cast<std::uint32_t>(slots));
  }
  void start(int slots, Token (*rule)(const std::vector<Token>&), bool speculation = true) {
    Options options;
    options.recurrent = true;
    options.speculation = speculation;
    options.max_outputs = slots + 64;
    make(slots, 4096, options);
    decoder_->rule = rule;
    decoder_->rows_cost_nothing = true;
  }
};

TEST_P(RollbackTest, TextThatRepeatsComesInFewerCalls) {
  start(1, circle);
  scheduler_->submit(spec(1, words(40, 1), 200));
  run_all();
  EXPECT_EQ(sink_.text[1], text_by(circle, words(40, 1), 200));
  EXPECT_LT(decoder_->calls, 60);
}

TEST_P(RollbackTest, DraftsThatFailLeaveNoTrace) {
  start(1, stumbling_circle);
  scheduler_->submit(spec(1, words(40, 1), 300));
  run_all();
  EXPECT_EQ(sink_.text[1], text_by(stumbling_circle, words(40, 1), 300));
  EXPECT_GT(sink_.done[1].drafted_tokens, sink_.done[1].accepted_tokens);
  EXPECT_GT(sink_.done[1].accepted_tokens, 0U);
}

TEST_P(RollbackTest, WhatAgreedIsFedAgainWithTheNextToken) {
  start(1, stumbling_circle);
  scheduler_->submit(spec(1, words(40, 1), 300));
  run_all();
  // The first call is the prompt; rows without a draft and without a replay are single.
  const auto computed = std::accumulate(decoder_->row_counts.begin() + 1, decoder_->row_counts.end(), 0);
  const auto failed = static_cast<int>(sink_.done[1].drafted_tokens - sink_.done[1].accepted_tokens);
  EXPECT_GT(computed, 300 + failed);
  EXPECT_LT(decoder_->calls, 200);
}

TEST_P(RollbackTest, SampledTextIsTheSameForTheSameSeed) {
  const auto sample = [&](bool speculation) {
    start(1, stumbling_circle, speculation);
    sampling::SamplingParams params;
    params.temperature = 4;
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

TEST_P(RollbackTest, RunsThatDecodeTogetherAreNotDraftedFor) {
  start(2, circle);
  scheduler_->submit(spec(1, words(40, 1), 100));
  scheduler_->submit(spec(2, words(40, 2), 100));
  run_all();
  EXPECT_EQ(sink_.text[1], text_by(circle, words(40, 1), 100));
  EXPECT_EQ(sink_.text[2], text_by(circle, words(40, 2), 100));
  EXPECT_LT(sink_.done[1].drafted_tokens + sink_.done[2].drafted_tokens, 16U) << "only the last one alone";
}

TEST_P(RollbackTest, ARunWhoseMemoryIsLostFailsAndTheNextOneIsRight) {
  start(1, stumbling_circle);
  decoder_->refuse_imports = true;
  scheduler_->submit(spec(1, words(40, 1), 300));
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::internal);
  decoder_->refuse_imports = false;
  scheduler_->submit(spec(2, words(40, 2), 50));
  run_all();
  EXPECT_EQ(sink_.text[2], text_by(stumbling_circle, words(40, 2), 50));
}

TEST_P(RollbackTest, ARunThatEndsInADraftLeavesItsSlotUsable) {
  start(1, circle);
  auto run = spec(1, words(60, 1), 200);
  const std::string whole = text_by(circle, words(60, 1), 200);
  run.stop = {whole.substr(90, 4)};
  scheduler_->submit(std::move(run));
  run_all();
  EXPECT_EQ(sink_.text[1], whole.substr(0, whole.find(whole.substr(90, 4))));
  scheduler_->submit(spec(2, words(60, 1), 50));
  run_all();
  EXPECT_EQ(sink_.text[2], whole.substr(0, 50));
}

INSTANTIATE_TEST_SUITE_P(Modes, RollbackTest, testing::Values(Mode::hybrid, Mode::recurrent),
                         [](const auto& info) { return std::string(kvcache::name(info.param)); });

}  // namespace
}  // namespace gezel::scheduler
