#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "speculation/drafter.h"

namespace gezel::speculation {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Token> counted(Token from, Token to) {
  std::vector<Token> out(static_cast<std::size_t>(to - from));
  std::iota(out.begin(), out.end(), from);
  return out;
}

std::vector<Token> operator+(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// --- lookup

TEST(Lookup, ProposesWhatFollowedTheSameTokensBefore) {
  Lookup lookup;
  const Proposal proposal = lookup.propose(counted(0, 20) + counted(5, 10), 4);
  EXPECT_THAT(proposal.tokens, ElementsAre(10, 11, 12, 13));
  EXPECT_EQ(proposal.match, 5U);
}

TEST(Lookup, HasNothingForTokensThatNeverStoodThere) {
  Lookup lookup;
  EXPECT_THAT(lookup.propose(counted(0, 50), 8).tokens, IsEmpty());
}

TEST(Lookup, TwoEqualTokensAreChance) {
  Lookup lookup;
  EXPECT_THAT(lookup.propose(counted(0, 20) + std::vector<Token>{99, 7, 8}, 8).tokens, IsEmpty());
}

TEST(Lookup, TheLongerMatchWinsOverTheLaterOne) {
  Lookup lookup;
  const std::vector<Token> tokens =
      std::vector<Token>{1, 2, 3, 4, 5, 50, 51, 9, 3, 4, 5, 60, 61, 1, 2, 3, 4, 5};
  EXPECT_THAT(lookup.propose(tokens, 2).tokens, ElementsAre(50, 51));
}

TEST(Lookup, TheLaterOfEqualMatchesWins) {
  Lookup lookup;
  const std::vector<Token> tokens = {1, 2, 3, 50, 8, 1, 2, 3, 60, 9, 1, 2, 3};
  EXPECT_THAT(lookup.propose(tokens, 1).tokens, ElementsAre(60));
}

TEST(Lookup, TextThatRepeatsItselfGoesOn) {
  Lookup lookup;
  EXPECT_THAT(lookup.propose({{1, 2, 1, 2, 1, 2, 1}}, 5).tokens, ElementsAre(2, 1, 2, 1, 2));
}

TEST(Lookup, GrowsWithTheRunTokenByToken) {
  // The same answers as a lookup that sees everything at once.
  std::mt19937 random(7);
  std::vector<Token> tokens;
  Lookup step_by_step;
  for (int i = 0; i < 3000; ++i) {
    tokens.push_back(static_cast<Token>(random() % 4));
    if (i % 97 != 0) continue;
    Lookup at_once;
    EXPECT_EQ(step_by_step.propose(tokens, 6).tokens, at_once.propose(tokens, 6).tokens) << i;
  }
}

TEST(Lookup, WhatItProposesFollowedALongestMatchOfAllThatItCompares) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < 200; ++i) tokens.push_back(static_cast<Token>(random() % 20));
    Lookup lookup;
    const Proposal proposal = lookup.propose(tokens, 1);
    std::size_t longest = 0;
    for (std::size_t end = kShortestMatch; end < tokens.size(); ++end) {
      std::size_t same = 0;
      while (same < std::min(end, kLongestMatch) &&
             tokens[end - 1 - same] == tokens[tokens.size() - 1 - same])
        ++same;
      longest = std::max(longest, same);
    }
    EXPECT_EQ(proposal.match, longest >= kShortestMatch ? longest : 0);
  }
}

// --- n-grams of all runs

TEST(SharedNgrams, ProposesWhatAnotherRunWrote) {
  SharedNgrams shared;
  shared.learn(1, counted(0, 30), 0);
  EXPECT_THAT(shared.propose(1, std::vector<Token>{99} + counted(2, 12), 3), ElementsAre(12, 13, 14));
}

TEST(SharedNgrams, AnotherDomainSeesNothing) {
  SharedNgrams shared;
  shared.learn(1, counted(0, 30), 0);
  EXPECT_THAT(shared.propose(2, counted(2, 12), 3), IsEmpty());
}

TEST(SharedNgrams, ProposalsEndWhereNothingIsKnown) {
  SharedNgrams shared;
  shared.learn(1, counted(0, 14), 0);
  EXPECT_THAT(shared.propose(1, counted(0, 12), 8), ElementsAre(12, 13));
}

TEST(SharedNgrams, ForgetsEverythingWhenItIsCrowded) {
  SharedNgrams shared;
  shared.learn(1, counted(0, 30), 0);
  shared.learn(1, counted(1000, 1000 + static_cast<Token>(SharedNgrams::kSlots / 2)), 0);
  EXPECT_THAT(shared.propose(1, counted(0, 12), 3), IsEmpty());
}

// --- cost and depth

TEST(StepRatio, OneRowCostsOne) {
  EXPECT_EQ(StepRatio().of(1), 1);
}

TEST(StepRatio, LearnsWhatMoreRowsCost) {
  StepRatio ratio;
  for (int i = 0; i < 30; ++i) ratio.observe(9, 30, 10);
  EXPECT_NEAR(ratio.of(9), 3, 0.01);
}

TEST(StepRatio, SizesNotSeenCostWhatTheNearestDoes) {
  StepRatio ratio;
  for (int i = 0; i < 30; ++i) ratio.observe(9, 18, 10);
  EXPECT_NEAR(ratio.of(17), 2.6, 0.01);
  EXPECT_NEAR(ratio.of(5), 1.4, 0.01);
}

TEST(Depth, DraftsDeepWhenTokensAreAcceptedAndRowsAreCheap) {
  StepRatio ratio;
  for (int i = 0; i < 30; ++i) ratio.observe(33, 20, 10);
  Depth depth;
  for (int i = 0; i < 20; ++i) depth.observe(16, 16, 1.5);
  EXPECT_GE(depth.choose(48, 0, ratio), 32U);
}

TEST(Depth, DoesNotDraftWhereAMoreRowCostsAWholeCall) {
  StepRatio ratio;
  for (const std::size_t rows : {2U, 4U, 8U, 16U, 32U, 64U})
    ratio.observe(rows, static_cast<double>(rows) * 10, 10);
  Depth depth;
  EXPECT_EQ(depth.choose(48, 0, ratio), 0U);
}

TEST(Depth, FourLossesMakeItRestForSixtyFourTokens) {
  StepRatio ratio;
  Depth depth;
  for (int i = 0; i < 4; ++i) depth.observe(8, 0, 2);
  EXPECT_EQ(depth.choose(48, 0, ratio), 0U);
  depth.passed(63);
  EXPECT_EQ(depth.choose(48, 0, ratio), 0U);
}

TEST(Depth, AfterTheRestAProbeOfTwoIsMade) {
  StepRatio ratio;
  Depth depth;
  for (int i = 0; i < 4; ++i) depth.observe(8, 0, 2);
  depth.passed(64);
  EXPECT_EQ(depth.choose(48, 0, ratio), 2U);
}

TEST(Depth, RunsThatShareTheStepMakeDraftsDearer) {
  StepRatio ratio;
  for (int i = 0; i < 30; ++i) ratio.observe(9, 25, 10);
  Depth alone, beside;
  for (int i = 0; i < 10; ++i) {
    alone.observe(8, 6, 2);
    beside.observe(8, 6, 2);
  }
  EXPECT_GT(alone.choose(48, 0, ratio), 0U);
  EXPECT_EQ(beside.choose(48, 7, ratio), 0U);
}

TEST(Depth, GuessesThatCostAsMuchAsTokensDoNotPay) {
  StepRatio ratio;
  for (int i = 0; i < 30; ++i) ratio.observe(9, 12, 10);
  Depth cheap, dear;
  EXPECT_GT(cheap.choose(8, 0, ratio, {.per_token = 0.1}), 0U);
  EXPECT_EQ(dear.choose(8, 0, ratio, {.per_token = 1}), 0U);
}

TEST(Depth, WhatMustBeComputedAgainMakesLongDraftsDearer) {
  StepRatio ratio;
  for (int i = 0; i < 30; ++i) ratio.observe(9, 26, 10);
  Depth cut, replay;
  for (int i = 0; i < 10; ++i) {
    cut.observe(8, 6, 2);
    replay.observe(8, 6, 2);
  }
  EXPECT_LT(replay.choose(48, 0, ratio, {.replays = true}), cut.choose(48, 0, ratio));
}

// --- the drafter

class DrafterTest : public testing::Test {
 protected:
  Draft next(const std::vector<Token>& tokens, const std::vector<Token>& continuation = {}) {
    return drafter_.next({.tokens = tokens, .continuation = continuation}, ratio_, &shared_, 1);
  }
  StepRatio ratio_;
  SharedNgrams shared_;
  Drafter drafter_;
};

TEST_F(DrafterTest, TheTreeComesFirst) {
  const Draft draft = next(counted(0, 20) + counted(5, 15), {70, 71, 72, 73});
  EXPECT_EQ(draft.source, Source::tree);
  EXPECT_EQ(draft.tokens.front(), 70);
}

TEST_F(DrafterTest, ASourceWithOneTokenIsPassedOver) {
  EXPECT_EQ(next(counted(0, 20) + counted(5, 15), {70}).source, Source::long_lookup);
}

TEST_F(DrafterTest, ShortMatchesAreASourceOfTheirOwn) {
  EXPECT_EQ(next(counted(0, 20) + std::vector<Token>{90} + counted(5, 9)).source, Source::short_lookup);
}

TEST_F(DrafterTest, ASourceThatRestsLeavesTheOthersAlone) {
  const auto tokens = counted(0, 20) + std::vector<Token>{90} + counted(5, 9);
  for (int i = 0; i < 4; ++i) drafter_.checked({Source::short_lookup, {1, 2, 3}}, 0, 2);
  EXPECT_THAT(next(tokens).tokens, IsEmpty());
  EXPECT_THAT(next(counted(0, 30) + counted(5, 15)).tokens, testing::Not(IsEmpty()));
}

TEST_F(DrafterTest, TheDraftModelRestsByItself) {
  const Drafter::Question question{.tokens = {}, .continuation = {}};
  EXPECT_GT(drafter_.depth_for_model(question, ratio_, 0.1), 0U);
  for (int i = 0; i < 4; ++i) drafter_.checked({Source::model, {1, 2, 3}}, 0, 3);
  EXPECT_EQ(drafter_.depth_for_model(question, ratio_, 0.1), 0U);
  EXPECT_FALSE(drafter_.wants(Source::model));
  EXPECT_TRUE(drafter_.wants(Source::tree));
}

TEST_F(DrafterTest, NeverDraftsMoreThanItMay) {
  const auto tokens = counted(0, 80) + counted(5, 15);
  const Draft draft = drafter_.next({.tokens = tokens, .continuation = {}, .most = 1}, ratio_, nullptr, 1);
  EXPECT_LE(draft.tokens.size(), 1U);
}

TEST_F(DrafterTest, CountsWhatWasDraftedAndAcceptedBySource) {
  drafter_.checked({Source::long_lookup, {1, 2, 3}}, 2, 1.5);
  EXPECT_EQ(drafter_.counts().drafted, 3U);
  EXPECT_EQ(drafter_.counts().accepted_by[static_cast<std::size_t>(Source::long_lookup)], 2U);
}

}  // namespace
}  // namespace gezel::speculation
