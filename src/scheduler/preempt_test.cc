#include <numeric>

#include "scheduler/test_scheduler.h"

namespace gezel::scheduler {
namespace {

using kvcache::Mode;

class PreemptTest : public SchedulerTest, public testing::WithParamInterface<Mode> {
 protected:
  void make_cache(int slots) override {
    decoder_->mode = GetParam();
    decoder_->uncuttable = GetParam() == Mode::hybrid || GetParam() == Mode::recurrent;
    CacheOptions options;
    options.mode = GetParam();
    options.slots = slots;
    options.sliding_window = GetParam() == Mode::window ? 16 : 0;
    options.host_budget = host_budget_;
    options.staging_limit = staging_limit_;
    cache_ = std::make_unique<PrefixCache>(options, *decoder_, nullptr, clock_);
    cache_->open(GetParam() == Mode::recurrent ? std::nullopt : std::optional(fake_layout(GetParam())),
                 static_cast<std::uint32_t>(slots));
  }
  void start(int slots) {
    Options options;
    options.recurrent = GetParam() == Mode::hybrid || GetParam() == Mode::recurrent;
    options.sliding_window = GetParam() == Mode::window ? 16 : 0;
    make(slots, 4096, options);
  }
  void submit(RunId id, prompt::Lane lane, int tokens, int prompt = 100) {
    RunSpec run = spec(id, words(prompt, static_cast<int>(id)), tokens);
    run.lane = lane;
    scheduler_->submit(std::move(run));
    expected_[id] = expected_text(words(prompt, static_cast<int>(id)), tokens);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) scheduler_->step();
  }
  int computed() const { return std::reduce(decoder_->row_counts.begin(), decoder_->row_counts.end()); }
  bool done(RunId id) const { return sink_.done.contains(id); }
  void expect_texts() {
    for (const auto& [id, text] : expected_) EXPECT_EQ(sink_.text[id], text) << id;
    EXPECT_EQ(cache_->tree().check(), "");
  }

  Bytes host_budget_ = 64 * kMiB, staging_limit_ = 0;
  std::map<RunId, std::string> expected_;
};

TEST_P(PreemptTest, AnInteractiveRequestTakesTheSlotOfBackgroundWorkWhichLosesNothing) {
  start(1);
  submit(1, prompt::Lane::background, 300);
  steps(50);
  submit(2, prompt::Lane::interactive, 20);
  while (!done(2)) scheduler_->step();
  EXPECT_FALSE(done(1));
  run_all();
  expect_texts();
  EXPECT_EQ(sink_.done[1].completion_tokens, 300);
}

TEST_P(PreemptTest, WhatWasComputedIsBroughtBackAndNotComputedAgain) {
  start(1);
  submit(1, prompt::Lane::background, 300, 400);
  steps(50);
  submit(2, prompt::Lane::interactive, 5);
  while (!done(2)) scheduler_->step();
  decoder_->row_counts.clear();
  steps(3);
  EXPECT_EQ(decoder_->imports, 1);
  EXPECT_THAT(decoder_->row_counts, testing::Each(1)) << "single tokens only";
}

TEST_P(PreemptTest, APromptThatIsStillReadCanBePutAside) {
  start(1);
  submit(1, prompt::Lane::background, 30, 3000);
  steps(2);
  ASSERT_FALSE(done(1));
  submit(2, prompt::Lane::interactive, 20);
  while (!done(2)) scheduler_->step();
  run_all();
  expect_texts();
}

TEST_P(PreemptTest, BatchWorkGivesWayBeforeBackgroundWork) {
  start(2);
  submit(1, prompt::Lane::batch, 300);
  submit(2, prompt::Lane::background, 300);
  steps(20);
  submit(3, prompt::Lane::interactive, 200);
  steps(30);
  const auto said = [&](RunId id) { return sink_.text[id].size(); };
  const auto batch = said(1), background = said(2);
  steps(20);
  EXPECT_EQ(said(1), batch);
  EXPECT_GT(said(2), background);
}

TEST_P(PreemptTest, OneInteractiveRequestDoesNotTakeAnothersSlot) {
  start(1);
  submit(1, prompt::Lane::interactive, 100);
  steps(10);
  submit(2, prompt::Lane::interactive, 10);
  while (!done(1)) {
    scheduler_->step();
    ASSERT_FALSE(done(2));
  }
  run_all();
  expect_texts();
}

TEST_P(PreemptTest, AfterTwoPreemptionsARunKeepsItsSlot) {
  start(1);
  submit(1, prompt::Lane::background, 400);
  RunId next = 2;
  for (int round = 0; round < 2; ++round) {
    steps(20);
    submit(next, prompt::Lane::interactive, 5);
    while (!done(next)) scheduler_->step();
    ASSERT_FALSE(done(1));
    ++next;
  }
  steps(20);
  submit(next, prompt::Lane::interactive, 5);
  while (!done(1)) {
    scheduler_->step();
    ASSERT_FALSE(done(next));
  }
  run_all();
  expect_texts();
}

TEST_P(PreemptTest, AParkedRunCanBeCancelled) {
  start(1);
  submit(1, prompt::Lane::background, 300);
  steps(50);
  submit(2, prompt::Lane::interactive, 20);
  steps(5);
  scheduler_->cancel(1);
  expected_.erase(1);
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::cancelled);
  expect_texts();
}

// Whether the host lacks the room or the buffer is too small.
TEST_P(PreemptTest, ARunThatCannotBePutAsideKeepsItsSlot) {
  for (const bool host : {true, false}) {
    sink_ = {};
    expected_.clear();
    host_budget_ = host ? 1000 : 64 * kMiB;
    staging_limit_ = host ? 0 : 1000;
    start(1);
    submit(1, prompt::Lane::background, 100, 400);
    steps(50);
    submit(2, prompt::Lane::interactive, 20);
    while (!done(1)) {
      scheduler_->step();
      ASSERT_FALSE(done(2));
    }
    run_all();
    expect_texts();
    EXPECT_EQ(computed(), 400 + 100 - 1 + 100 + 20 - 1) << "no token twice";
    scheduler_.reset();
    cache_.reset();
  }
}

TEST_P(PreemptTest, WhereOneCannotBePutAsideAnotherGivesWay) {
  staging_limit_ = 10'000;
  start(2);
  submit(1, prompt::Lane::background, 300, 100);
  submit(2, prompt::Lane::batch, 300, 3000);
  while (sink_.prefill[2].empty() || sink_.prefill[2].back() < 3000) scheduler_->step();
  submit(3, prompt::Lane::interactive, 20);
  while (!done(3)) scheduler_->step();
  EXPECT_FALSE(done(1));
  EXPECT_FALSE(done(2));
  run_all();
  expect_texts();
}

TEST_P(PreemptTest, ARunWhoseExportFailsLosesNothing) {
  start(1);
  decoder_->refuse_exports = true;
  submit(1, prompt::Lane::background, 100, 400);
  steps(50);
  submit(2, prompt::Lane::interactive, 20);
  run_all();
  expect_texts();
  EXPECT_EQ(computed(), 400 + 100 - 1 + 100 + 20 - 1) << "no token twice";
}

TEST_P(PreemptTest, CachedTokensSayWhatThePromptReused) {
  start(1);
  submit(1, prompt::Lane::background, 100);
  steps(50);
  submit(2, prompt::Lane::interactive, 20);
  run_all();
  EXPECT_EQ(sink_.done[1].cached_tokens, 0);
  EXPECT_EQ(sink_.done[1].cached.host, 0);
}

TEST_P(PreemptTest, ManyRunsOfAllLanesKeepTheirTexts) {
  std::mt19937 random(11);
  start(3);
  for (RunId id = 1; id <= 60; ++id) {
    submit(id, static_cast<prompt::Lane>(random() % 3), static_cast<int>(1 + random() % 60),
           static_cast<int>(20 + random() % 300));
    steps(static_cast<int>(random() % 25));
  }
  for (int i = 0; i < 20'000 && sink_.done.size() < 60; ++i) scheduler_->step();
  EXPECT_EQ(sink_.done.size(), 60U);
  expect_texts();
}

std::string mode_name(const testing::TestParamInfo<Mode>& info) {
  switch (info.param) {
    case Mode::full:
      return "full";
    case Mode::window:
      return "window";
    case Mode::hybrid:
      return "hybrid";
    default:
      return "recurrent";
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, PreemptTest,
                         testing::Values(Mode::full, Mode::window, Mode::hybrid, Mode::recurrent), mode_name);

}  // namespace
}  // namespace gezel::scheduler
