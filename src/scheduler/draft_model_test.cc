// A draft model beside the model: it may only change how fast a text comes.
#include "scheduler/draft_model.h"

#include "scheduler/test_drafts.h"

namespace gezel::scheduler {
namespace {

// Never goes around in a circle: nothing that comes stood there before.
Token fresh(const std::vector<Token>& text) {
  std::uint64_t hash = 17;
  for (const Token token : text) {
    hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return static_cast<Token>(1 + hash % 60);
}
// As the model, but for every seventh token.
Token nearly(const std::vector<Token>& text) {
  return text.size() % 7 == 0 ? 1 + fresh(text) % 60 : fresh(text);
}
Token always_wrong(const std::vector<Token>& text) {
  return 1 + fresh(text) % 60;
}

class DraftModelTest : public SchedulerTest {
 protected:
  void make_draft_model(int slots) override {
    drafter_ = std::make_unique<FakeDecoder>(slots, 4096);
    drafter_->rule = rule_;
    draft_model_ =
        std::make_unique<DraftModel>(DraftModel::Options{.slots = slots,
                                                         .context_per_slot = 4096,
                                                         .vocabulary = vocabulary_,
                                                         .most = most_,
                                                         .is_end = [](Token token) { return token == kEnd; }},
                                     *drafter_, clock_);
  }
  // All drafts are the draft model's.
  void start(int slots = 1) {
    Options options;
    options.max_outputs = slots + 64;
    make(slots, 4096, options);
    decoder_->rule = fresh;
    decoder_->rows_cost_nothing = true;
  }
  void expect_text(RunId id, const std::vector<Token>& prompt, int tokens) {
    EXPECT_EQ(sink_.text[id], text_by(fresh, prompt, tokens)) << id;
  }
  int longest_call() const {
    return *std::max_element(drafter_->row_counts.begin(), drafter_->row_counts.end());
  }

  Token (*rule_)(const std::vector<Token>&) = fresh;
  int vocabulary_ = kVocab;
  std::size_t most_ = 0;
  std::unique_ptr<FakeDecoder> drafter_;
};

TEST_F(DraftModelTest, ATextThatItKnowsComesInFewerCalls) {
  start();
  scheduler_->submit(spec(1, words(40, 1), 200));
  run_all();
  expect_text(1, words(40, 1), 200);
  EXPECT_LT(decoder_->calls, 60);
  EXPECT_EQ(sink_.done[1].drafted_tokens, sink_.done[1].accepted_tokens);
}

TEST_F(DraftModelTest, WhatItGuessesWrongLeavesNoTrace) {
  rule_ = nearly;
  start();
  scheduler_->submit(spec(1, words(40, 1), 300));
  run_all();
  expect_text(1, words(40, 1), 300);
  EXPECT_GT(sink_.done[1].drafted_tokens, sink_.done[1].accepted_tokens);
  EXPECT_GT(sink_.done[1].accepted_tokens, 150U);
}

TEST_F(DraftModelTest, OneThatIsNeverRightIsHardlyAsked) {
  rule_ = always_wrong;
  start();
  scheduler_->submit(spec(1, words(40, 1), 600));
  run_all();
  expect_text(1, words(40, 1), 600);
  EXPECT_LT(sink_.done[1].drafted_tokens, 60U);
}

TEST_F(DraftModelTest, RunsInAllSlotsAreFollowedApart) {
  rule_ = nearly;
  start(4);
  for (RunId id = 1; id <= 9; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 120));
  run_all();
  for (RunId id = 1; id <= 9; ++id) expect_text(id, words(30, static_cast<int>(id)), 120);
}

TEST_F(DraftModelTest, ALongPromptIsFollowedInPieces) {
  start();
  scheduler_->submit(spec(1, words(1'000, 1), 200));
  run_all();
  expect_text(1, words(1'000, 1), 200);
  EXPECT_LE(longest_call(), 64);
  EXPECT_GT(sink_.done[1].accepted_tokens, 50U);
}

TEST_F(DraftModelTest, TheNextTurnIsFollowedFromWhereTheLastOneEnded) {
  start();
  auto text = words(200, 1);
  scheduler_->submit(spec(1, text, 50));
  run_all();
  for (int i = 0; i < 50; ++i) text.push_back(fresh(text));
  text = text + words(10, 7);
  drafter_->row_counts.clear();
  scheduler_->submit(spec(2, text, 30));
  run_all();
  expect_text(2, text, 30);
  EXPECT_LE(longest_call(), DraftModel::kNearlyThere) << "only the new turn is computed";
}

TEST_F(DraftModelTest, TokensThatItDoesNotHaveEndItsGuessesOnly) {
  vocabulary_ = 30;
  start();
  scheduler_->submit(spec(1, words(40, 1), 100));
  run_all();
  expect_text(1, words(40, 1), 100);
  EXPECT_TRUE(draft_model_->works());
}

TEST_F(DraftModelTest, AnswersGoOnWithoutOneThatFailed) {
  start();
  drafter_->next_code = llama::DecodeCode::failed;
  scheduler_->submit(spec(1, words(40, 1), 100));
  run_all();
  expect_text(1, words(40, 1), 100);
  EXPECT_FALSE(draft_model_->works());
  EXPECT_EQ(sink_.done[1].drafted_tokens, 0U);
}

TEST_F(DraftModelTest, GuessesNoMoreThanItIsAllowed) {
  most_ = 3;
  start();
  scheduler_->submit(spec(1, words(40, 1), 100));
  run_all();
  EXPECT_LE(*std::max_element(decoder_->row_counts.begin() + 1, decoder_->row_counts.end()), 4);
}

TEST_F(DraftModelTest, AFullWindowIsNotExceeded) {
  // The decoders of the tests refuse positions behind the window.
  Options options;
  options.max_outputs = 65;
  make(1, 128, options);
  decoder_->rule = fresh;
  decoder_->rows_cost_nothing = true;
  scheduler_->submit(spec(1, words(60, 1), std::nullopt));
  run_all();
  EXPECT_TRUE(sink_.done[1].length);
  expect_text(1, words(60, 1), 69);
}

TEST_F(DraftModelTest, WhatASlotForgetsItForgetsToo) {
  start();
  scheduler_->submit(spec(1, words(40, 1), 20));
  run_all();
  EXPECT_GT(drafter_->position_max(0), 0);
  const int slots[] = {0};
  scheduler_->clear_idle(slots);
  EXPECT_EQ(drafter_->position_max(0), -1);
}

TEST_F(DraftModelTest, WithoutSpeculationItIsNotAsked) {
  Options options;
  options.speculation = false;
  make(1, 4096, options);
  scheduler_->submit(spec(1, words(40, 1), 20));
  run_all();
  EXPECT_EQ(drafter_->calls, 0);
}

TEST_F(DraftModelTest, SampledTextIsTheSameForTheSameSeed) {
  const auto sample = [&](bool speculation) {
    Options options;
    options.speculation = speculation;
    options.max_outputs = 65;
    make(1, 4096, options);
    decoder_->rule = fresh;
    decoder_->rows_cost_nothing = true;
    sampling::SamplingParams params;
    params.temperature = 3;
    params.seed = 5;
    RunSpec run = spec(1, words(40, 1), 300);
    run.sampler = sampling::Sampler(params, view_);
    sink_ = {};
    scheduler_->submit(std::move(run));
    run_all();
    return sink_.text[1];
  };
  EXPECT_EQ(sample(true), sample(false));
}

}  // namespace
}  // namespace gezel::scheduler
