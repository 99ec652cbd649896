#include "worker/intake_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::worker {
namespace {

using ::testing::HasSubstr;
using Cause = IntakeGuard::Cause;
using Work = IntakeGuard::Work;

constexpr Millis kNoWait{0};

class IntakeGuardTest : public ::testing::Test {
 protected:
  ManualClock clock;
  IntakeGuard guard{clock};
};

TEST_F(IntakeGuardTest, WhereNothingIsWorkedOnTimeMayPass) {
  clock.advance(Millis(10'000'000));
  EXPECT_FALSE(guard.look(kNoWait));
  guard.enter(7);
  guard.leave();
  clock.advance(Millis(10'000'000));
  EXPECT_FALSE(guard.look(kNoWait));
}

TEST_F(IntakeGuardTest, ARenderingThatDoesNotEndIsAVerdictAboutTheModelForItsRequest) {
  guard.enter(7);
  clock.advance(IntakeGuard::kRenderLimit - Millis(1));
  EXPECT_FALSE(guard.look(kNoWait));
  clock.advance(Millis(1));
  const auto failed = guard.look(kNoWait);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->id, 7U);
  EXPECT_EQ(failed->kind, protocol::kOverrunKind);
  EXPECT_EQ(failed->code, "model-invalid");
  EXPECT_THAT(failed->message, HasSubstr("chat template did not end within 30 s"));
}

TEST_F(IntakeGuardTest, EachRenderingOfARequestHasItsOwnTime) {
  guard.enter(7);
  for (int i = 0; i < 5; ++i) {
    clock.advance(IntakeGuard::kRenderLimit - Millis(1));
    guard.begin(Work::rendering);
  }
  EXPECT_FALSE(guard.look(kNoWait));
}

TEST_F(IntakeGuardTest, TokenizingHasALongerLimitOfItsOwn) {
  guard.enter(7);
  guard.begin(Work::tokenizing);
  clock.advance(IntakeGuard::kTokenizeLimit - Millis(1));
  EXPECT_FALSE(guard.look(kNoWait));
  clock.advance(Millis(1));
  const auto failed = guard.look(kNoWait);
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->message, HasSubstr("tokenizer did not end within 180 s"));
}

TEST_F(IntakeGuardTest, ASchemaThatDoesNotCompileInTimeIsTheRequestsOwnFault) {
  guard.enter(7);
  guard.begin(Work::constraining);
  clock.advance(IntakeGuard::kConstrainLimit);
  const auto failed = guard.look(kNoWait);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, "constraint-rejected");
  EXPECT_THAT(failed->message, HasSubstr("schema"));
}

TEST_F(IntakeGuardTest, AnOverrunIsToldAtOnceWithItsCause) {
  guard.enter(7);
  guard.overrun(Cause::stack);
  EXPECT_THAT(guard.look(kNoWait).value().message, HasSubstr("chat template ran out of stack"));
  guard.overrun(Cause::memory);
  EXPECT_THAT(guard.look(kNoWait).value().message, HasSubstr("took more memory than it may"));
}

TEST_F(IntakeGuardTest, DuringALoadItIsAboutTheLoad) {
  guard.enter(std::nullopt);
  guard.overrun(Cause::memory);
  const auto failed = guard.look(kNoWait);
  ASSERT_TRUE(failed);
  EXPECT_FALSE(failed->id);
  EXPECT_EQ(failed->code, "model-invalid");
}

}  // namespace
}  // namespace gezel::worker
