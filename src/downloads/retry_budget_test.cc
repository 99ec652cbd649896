#include "downloads/retry_budget.h"

#include <gtest/gtest.h>

namespace gezel::downloads {
namespace {

class FixedEntropy final : public Entropy {
 public:
  explicit FixedEntropy(unsigned char byte) : byte_(byte) {}
  void fill(unsigned char* out, std::size_t size) override { std::fill(out, out + size, byte_); }

 private:
  unsigned char byte_;
};

// Attempts until it gives up, each dying after `step` new bytes; at most 1000.
int attempts_until_end(RetryBudget& budget, Bytes step) {
  Bytes at = 0;
  for (int attempt = 1; attempt <= 1000; ++attempt) {
    at += step;
    if (!budget.failed(at)) return attempt;
  }
  return 1000;
}

TEST(RetryBudget, Case25GivesUpAfterFiveAttemptsWithoutHeadway) {
  FixedEntropy entropy(0);
  RetryBudget budget({}, entropy);
  EXPECT_EQ(attempts_until_end(budget, 1 * kMiB), 5);
}

TEST(RetryBudget, Case26HeadwayResetsTheCount) {
  FixedEntropy entropy(0);
  RetryBudget budget({}, entropy);
  for (Bytes attempt = 1; attempt <= 20; ++attempt) EXPECT_TRUE(budget.failed(attempt * 8 * kMiB));
}

TEST(RetryBudget, Case27StopsAfterAHundredAttempts) {
  FixedEntropy entropy(0);
  RetryBudget budget({}, entropy);
  EXPECT_EQ(attempts_until_end(budget, 8 * kMiB), 100);
}

TEST(RetryBudget, Case28TheThirdDelayIsFourSecondsWithJitter) {
  for (const auto& [byte, expected] : {std::pair{0, 3200}, {255, 4800}}) {
    FixedEntropy entropy(static_cast<unsigned char>(byte));
    RetryBudget budget({}, entropy);
    budget.failed(0);
    budget.failed(0);
    EXPECT_EQ(budget.failed(0), Millis(expected));
  }
}

TEST(RetryBudget, DelaysGrowAndTheLastOneRepeats) {
  FixedEntropy entropy(128);
  RetryRules rules;
  rules.without_headway = 10;
  rules.jitter_percent = 0;
  RetryBudget budget(rules, entropy);
  for (const int expected : {1000, 2000, 4000, 6000, 8000, 8000, 8000})
    EXPECT_EQ(budget.failed(0), Millis(expected));
}

TEST(RetryBudget, OneMeansOneWhateverItGot) {
  FixedEntropy entropy(0);
  RetryRules rules;
  rules.without_headway = 1;
  RetryBudget budget(rules, entropy);
  EXPECT_EQ(budget.failed(kGiB), std::nullopt);
}

TEST(RetryBudget, TruncatedFilesMakeNoHeadwayTwice) {
  FixedEntropy entropy(0);
  RetryBudget budget({}, entropy);
  EXPECT_TRUE(budget.failed(100 * kMiB));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(budget.failed(50 * kMiB));
  EXPECT_FALSE(budget.failed(50 * kMiB));
}

}  // namespace
}  // namespace gezel::downloads
