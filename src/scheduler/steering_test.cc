#include "scheduler/steering.h"

#include "scheduler/test_scheduler.h"

namespace gezel::scheduler {
namespace {

using testing::ElementsAre;

// Allows what a script says, forces what it says, and checks that it is asked in order.
class ScriptedSteering final : public Steering {
 public:
  void prepare() override { ++prepared; }
  Result<std::span<const std::uint32_t>> mask() override {
    if (fail_mask) return fail(ErrorKind::internal, "constraint-failed", "the mask failed");
    if (allowed.empty()) return std::span<const std::uint32_t>{};
    bits_.assign((kVocab + 31) / 32, 0);
    if (banned_) return std::span<const std::uint32_t>(bits_);
    for (const Token token : allowed) bits_[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
    return std::span<const std::uint32_t>(bits_);
  }
  Result<bool> accept(Token token) override {
    if (refused.contains(token)) {
      allowed.erase(token);
      if (allowed.empty()) allowed.insert(kVocab - 1), banned_ = true;
      return false;
    }
    accepted.push_back(token);
    return true;
  }
  std::vector<Token> forced() override { return std::exchange(force, {}); }
  bool complete() const override { return end_after > 0 && accepted.size() >= end_after; }
  SteeringReport report() const override { return {.reasoning_tokens = 7}; }

  int prepared = 0;
  bool fail_mask = false;
  std::set<Token> allowed, refused;
  std::vector<Token> accepted, force;
  std::size_t end_after = 0;

 private:
  std::vector<std::uint32_t> bits_;
  bool banned_ = false;  // the last allowed token was refused
};

class SteeringTest : public SchedulerTest {
 protected:
  ScriptedSteering& submit(RunId id, int seed, std::int64_t max_tokens) {
    auto run = spec(id, words(20, seed), max_tokens);
    auto steering = std::make_unique<ScriptedSteering>();
    ScriptedSteering& out = *steering;
    run.steering = std::move(steering);
    scheduler_->submit(std::move(run));
    return out;
  }
};

TEST_F(SteeringTest, OnlyAllowedTokensAreSampled) {
  make(1);
  submit(1, 1, 6).allowed = {9};
  run_all();
  EXPECT_EQ(sink_.text[1], letter(9) + letter(9) + letter(9) + letter(9) + letter(9) + letter(9));
  EXPECT_TRUE(sink_.done[1].length);
}

TEST_F(SteeringTest, ATokenTakenBackIsSampledAgain) {
  make(1);
  auto& steering = submit(1, 1, 2);
  steering.allowed = {9, 11};
  steering.refused = {9};
  run_all();
  EXPECT_EQ(sink_.text[1], letter(11) + letter(11));
}

TEST_F(SteeringTest, ForcedTokensFollowWithoutSamplingAndCount) {
  make(1);
  auto& steering = submit(1, 1, 5);
  steering.allowed = {9};
  steering.force = {20, 21, 22};
  run_all();
  EXPECT_EQ(sink_.text[1], letter(9) + letter(20) + letter(21) + letter(22) + letter(9));
  EXPECT_EQ(sink_.done[1].completion_tokens, 5);
}

TEST_F(SteeringTest, ForcedTokensAreFedInOneCall) {
  make(1);
  auto& steering = submit(1, 1, 6);
  steering.force = {20, 21, 22};
  run_all();
  EXPECT_THAT(decoder_->row_counts, ElementsAre(20, 4, 1));
}

TEST_F(SteeringTest, ForcedTextLongerThanABatchIsFedInPieces) {
  make(1, 4096, Options{.batch_tokens = 32});
  auto& steering = submit(1, 1, 80);
  steering.force = std::vector<Token>(70, 20);
  run_all();
  EXPECT_EQ(sink_.done[1].completion_tokens, 80);
  for (const int rows : decoder_->row_counts) EXPECT_LE(rows, 32);
}

TEST_F(SteeringTest, AStopStringInsideForcedTextEndsTheRun) {
  make(1);
  auto run = spec(1, words(20, 1), 20);
  auto steering = std::make_unique<ScriptedSteering>();
  steering->allowed = {9};
  steering->force = {20, 21, 22};
  run.steering = std::move(steering);
  run.stop = {letter(21)};
  scheduler_->submit(std::move(run));
  run_all();
  EXPECT_EQ(sink_.text[1], letter(9) + letter(20));
  EXPECT_FALSE(sink_.done[1].length);
}

TEST_F(SteeringTest, ACompleteConstraintEndsTheRun) {
  make(1);
  auto& steering = submit(1, 1, 50);
  steering.allowed = {9};
  steering.end_after = 3;
  run_all();
  EXPECT_EQ(sink_.done[1].completion_tokens, 3);
  EXPECT_FALSE(sink_.done[1].length);
  EXPECT_EQ(sink_.done[1].steering.reasoning_tokens, 7);
}

TEST_F(SteeringTest, AFailedConstraintFailsTheRunAndNoOther) {
  make(2);
  submit(1, 1, 50).fail_mask = true;
  scheduler_->submit(spec(2, words(20, 2), 10));
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::constraint);
  EXPECT_EQ(sink_.text[2], expected_text(words(20, 2), 10));
}

TEST_F(SteeringTest, AConstraintNeverReachesTheRunBesideIt) {
  make(2);
  submit(1, 1, 12).allowed = {9};
  scheduler_->submit(spec(2, words(20, 2), 30));
  run_all();
  EXPECT_EQ(sink_.text[2], expected_text(words(20, 2), 30));
}

TEST_F(SteeringTest, B25AConstraintStaysWithItsRunWhenOthersEndAndJoin) {
  make(2);
  submit(1, 1, 40).allowed = {9};
  scheduler_->submit(spec(2, words(20, 2), 5));  // ends first
  scheduler_->submit(spec(3, words(20, 3), 8));  // takes its place
  run_all();
  std::string steered;
  for (int i = 0; i < 40; ++i) steered += letter(9);
  EXPECT_EQ(sink_.text[1], steered);
  EXPECT_EQ(sink_.text[2], expected_text(words(20, 2), 5));
  EXPECT_EQ(sink_.text[3], expected_text(words(20, 3), 8));
}

TEST_F(SteeringTest, AMaskThatLeavesNothingFailsTheRun) {
  make(1);
  auto& steering = submit(1, 1, 50);
  steering.allowed = {9};
  steering.refused = {9};
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::constraint);
}

TEST_F(SteeringTest, TheNextMaskIsPreparedWhileTheBatchRuns) {
  make(1);
  auto& steering = submit(1, 1, 50);
  EXPECT_EQ(steering.prepared, 1);
  scheduler_->step();
  EXPECT_EQ(steering.prepared, 2);
}

}  // namespace
}  // namespace gezel::scheduler
