#include "capacity/fit.h"

#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

Fit fit_on(const MemoryProfile& host, double footprint, bool moe, std::optional<Bytes> residue = {}) {
  return rate_fit({.footprint = gib(footprint),
                   .moe = moe,
                   .usable = host.usable_bytes,
                   .gpu_vram = host.fast_gpu_bytes(),
                   .admissible = host.budget_bytes,
                   .non_expert_bytes = residue});
}

TEST(Fit, Case88_ACardHoldsModelsAndTheResidueOfExperts) {
  const MemoryProfile host = card_host(16, 48);
  EXPECT_EQ(fit_on(host, 15, false).tier, FitTier::fits);
  EXPECT_EQ(fit_on(host, 15, false).label, "in GPU memory");
  EXPECT_EQ(fit_on(host, 28, true).tier, FitTier::fits_offload);
  EXPECT_EQ(fit_on(host, 28, false).tier, FitTier::tight);
  EXPECT_EQ(fit_on(host, 28, true, gib(16)).tier, FitTier::tight);
  EXPECT_EQ(fit_on(host, 44, true).tier, FitTier::too_big);
  EXPECT_EQ(fit_tier_name(FitTier::too_big), "too-big");
}

TEST(Fit, Case89_AUnifiedMachineHasNoSecondPool) {
  const MemoryProfile host = unified_host(32);
  EXPECT_EQ(fit_on(host, 20, false).tier, FitTier::fits);
  EXPECT_EQ(fit_on(host, 20, false).label, "in memory");
  EXPECT_EQ(fit_on(host, 23, false).tier, FitTier::too_big);
}

TEST(Fit, TagsTellExperts) {
  EXPECT_TRUE(is_moe_by_tags({"chat", "MoE"}));
  EXPECT_TRUE(is_moe_by_tags({"8-Experts"}));
  EXPECT_FALSE(is_moe_by_tags({"smoe", "dense"}));
}

TEST(Fit, CapabilityGoesByDecimalBytes) {
  EXPECT_EQ(capability_tier(25'000'000'000), "large");
  EXPECT_EQ(capability_tier(24'999'999'999), "medium");
  EXPECT_EQ(capability_tier(13'000'000'000), "medium");
  EXPECT_EQ(capability_tier(5'000'000'000), "small");
  EXPECT_EQ(capability_tier(4'999'999'999), "tiny");
}

TEST(Fit, MediaModelsNameTheirFloors) {
  EXPECT_TRUE(media_fits({}, plain_host(8)));
  EXPECT_FALSE(media_fits({.min_ram = gib(16)}, plain_host(8)));
  EXPECT_FALSE(media_fits({.min_vram = gib(8)}, plain_host(64)));
  EXPECT_TRUE(media_fits({.min_vram = gib(8)}, card_host(8, 16)));
  EXPECT_TRUE(media_fits({.min_vram = gib(12.8)}, unified_host(16)));
  EXPECT_FALSE(media_fits({.min_vram = gib(13)}, unified_host(16)));
}

}  // namespace
}  // namespace gezel::capacity
