#include "capacity/cache_budget.h"

#include <gtest/gtest.h>

namespace gezel::capacity {
namespace {

TEST(CacheBudget, AnExactThresholdIsInTheHigherTier) {
  EXPECT_EQ(default_cache_budget(16 * kGiB - kGiB / 10) / kMiB, 2'048U);
  EXPECT_EQ(default_cache_budget(16 * kGiB) / kMiB, 4'096U);
  EXPECT_EQ(default_cache_budget(32 * kGiB) / kMiB, 8'192U);
  EXPECT_EQ(default_cache_budget(64 * kGiB) / kMiB, 16'384U);
}

}  // namespace
}  // namespace gezel::capacity
