#include "capacity/budget.h"

#include <gtest/gtest.h>

#include "capacity/profile.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

TEST(Profile, Case14_AnIntegratedGpuAddsNoMemory) {
  const MemoryProfile profile =
      plan_profile({.total_ram = gib(24),
                    .devices = {{.id = "Vulkan0", .name = "Intel Graphics", .total_mib = 12 * 1024}}});
  EXPECT_EQ(profile.gpu_memory_kind, GpuMemoryKind::integrated);
  EXPECT_EQ(profile.source, "gpu-integrated");
  EXPECT_EQ(profile.gpu_vendor, "intel");
  EXPECT_EQ(profile.usable_bytes, gib(12));
  EXPECT_EQ(profile.budget_bytes, 18'038'862'643u);
  EXPECT_EQ(profile.gpu_vram_bytes, gib(12));
  EXPECT_EQ(profile.fast_gpu_bytes(), std::nullopt);
}

TEST(Profile, Case15_ACardAndMainMemory) {
  const MemoryProfile profile = card_host(16, 48);
  EXPECT_EQ(profile.gpu_memory_kind, GpuMemoryKind::discrete);
  EXPECT_EQ(profile.usable_bytes, 16'320'875'724u);
  EXPECT_EQ(profile.budget.fast_bytes, 16'320'875'724u);
  EXPECT_EQ(profile.budget.ram_share_bytes, 30'923'764'531u);
  EXPECT_EQ(profile.budget_bytes, 47'244'640'255u);
}

TEST(Budget, Case16_UnifiedMachinesKeepBetween4And16GiB) {
  EXPECT_EQ(plan_budget({.ram = gib(24), .unified = true}).budget_bytes, 18'038'862'643u);
  EXPECT_EQ(plan_budget({.ram = gib(8), .unified = true}).budget_bytes, gib(4));
  const Budget large = plan_budget({.ram = gib(192), .unified = true});
  EXPECT_EQ(large.budget_bytes, gib(176));
  EXPECT_EQ(large.concurrency_bytes, gib(96));
}

TEST(Budget, Case17_ConcurrencyGrowsSlowerThanTheBudget) {
  const Budget below = plan_budget({.ram = gib(95), .unified = true});
  EXPECT_EQ(below.budget_bytes, gib(79));
  EXPECT_EQ(below.concurrency_bytes, 71'403'831'296u);
  const Budget large = plan_budget({.ram = gib(96), .unified = true});
  EXPECT_EQ(large.budget_bytes, gib(80));
  EXPECT_EQ(large.concurrency_bytes, 82'463'372'083u);
}

TEST(Profile, Case18_WithoutGpuAShareOfMainMemory) {
  const MemoryProfile profile = plain_host(24);
  EXPECT_EQ(profile.source, "system-ram-fallback");
  EXPECT_EQ(profile.gpu_memory_kind, GpuMemoryKind::none);
  EXPECT_EQ(profile.usable_bytes, gib(12));
  EXPECT_EQ(profile.budget_bytes, 15'461'882'265u);
  EXPECT_EQ(plain_host(256).budget_bytes, gib(96));
}

TEST(Profile, Case19_AnUnclassifiedPoolIsUnifiedFromThreeQuartersOfMemory) {
  const auto host = [](double vram) {
    return plan_profile({.total_ram = gib(48),
                         .devices = {{.id = "X0", .name = "Some Device", .total_mib = gib(vram) / kMiB}}});
  };
  EXPECT_EQ(host(36).gpu_memory_kind, GpuMemoryKind::unified);
  EXPECT_EQ(host(36).budget_bytes, 36'077'725'286u);
  EXPECT_EQ(host(36).usable_bytes, 36'077'725'286u);
  EXPECT_EQ(host(35).gpu_memory_kind, GpuMemoryKind::unknown);
  EXPECT_EQ(host(35).budget.kind, PoolKind::discrete_gpu);
  EXPECT_EQ(host(35).budget_bytes, 66'625'680'179u);
  EXPECT_EQ(plan_budget({.ram = gib(48), .vram = gib(36)}).kind, PoolKind::unified);
  EXPECT_EQ(plan_budget({.ram = gib(48), .vram = gib(36), .unified = false}).kind, PoolKind::discrete_gpu);
}

TEST(Budget, Case20_AnOverrideReplacesTheTotal) {
  BudgetInput input{.ram = gib(48), .vram = gib(16), .unified = false};
  input.override_bytes = parse_gib("20");
  const Budget twenty = plan_budget(input);
  EXPECT_EQ(twenty.budget_bytes, gib(20));
  EXPECT_EQ(twenty.fast_bytes, 16'320'875'724u);
  EXPECT_EQ(twenty.ram_share_bytes, 5'153'960'756u);
  input.override_bytes = parse_gib("10");
  const Budget ten = plan_budget(input);
  EXPECT_EQ(ten.budget_bytes, gib(10));
  EXPECT_EQ(ten.fast_bytes, gib(10));
  EXPECT_EQ(ten.ram_share_bytes, 0u);
  EXPECT_EQ(parse_gib("abc"), std::nullopt);
}

TEST(Budget, Case21_TheCeilingOfAutomaticCachesIsAQuarterButAtLeast8GiB) {
  EXPECT_EQ(auto_kv_ceiling(gib(48)), gib(12));
  EXPECT_EQ(auto_kv_ceiling(gib(22.8)), gib(8));
  EXPECT_EQ(auto_kv_ceiling(gib(112)), gib(28));
  EXPECT_EQ(auto_kv_ceiling(gib(112), gib(3)), gib(3));
}

TEST(Budget, GibibytesAreDecimalNumbersAboveZero) {
  EXPECT_EQ(parse_gib("0.5"), kGiB / 2);
  EXPECT_EQ(parse_gib("1.3"), 1'395'864'371u);
  EXPECT_EQ(parse_gib(".25"), kGiB / 4);
  for (const char* text : {"", ".", "0", "-1", "1e3", "2 ", "1.2.3", "99999999999999999999"})
    EXPECT_EQ(parse_gib(text), std::nullopt) << text;
}

TEST(Budget, ASmallMachineKeepsATenthButAtLeast128MiB) {
  EXPECT_EQ(plan_budget({.ram = gib(3)}).budget_bytes, gib(3) - gib(3) / 10);
  EXPECT_EQ(plan_budget({.ram = kGiB}).budget_bytes, kGiB - 128 * kMiB);
  EXPECT_EQ(plan_budget({.ram = 100 * kMiB}).budget_bytes, 0u);
}

TEST(Budget, MoreMemoryNeverGivesLess) {
  for (const bool unified : {false, true}) {
    for (const Bytes vram : {Bytes{0}, gib(16)}) {
      Budget before;
      for (Bytes ram = kGiB / 4; ram < gib(300); ram += kGiB / 4) {
        const Budget now = plan_budget({.ram = ram, .vram = vram, .unified = unified});
        EXPECT_GE(now.budget_bytes, before.budget_bytes) << ram;
        EXPECT_GE(now.fast_bytes, before.fast_bytes) << ram;
        EXPECT_GE(now.concurrency_bytes, before.concurrency_bytes) << ram;
        before = now;
      }
    }
  }
}

TEST(Profile, AMacHasOnePool) {
  EXPECT_EQ(unified_host(64).usable_bytes, gib(48));
  EXPECT_EQ(unified_host(64).source, "darwin-unified");
  EXPECT_EQ(unified_host(64).gpu_vram_bytes, std::nullopt);
  const MemoryProfile intel = plan_profile({.platform = Platform::macos, .total_ram = gib(24)});
  EXPECT_EQ(intel.usable_bytes, 15'461'882'265u);
}

TEST(Profile, NvidiasToolAnswersBeforeTheEnginesList) {
  const MemoryProfile profile =
      plan_profile({.total_ram = gib(128),
                    .nvidia = system::NvidiaMemory{.vram_bytes = gib(120), .unified = true, .devices = 1},
                    .devices = {{.id = "Vulkan0", .name = "AMD Radeon RX 7900", .total_mib = 16'384}}});
  EXPECT_EQ(profile.source, "gpu-nvidia");
  EXPECT_EQ(profile.gpu_memory_kind, GpuMemoryKind::unified);
  EXPECT_EQ(profile.usable_bytes, profile.budget_bytes);
  EXPECT_EQ(profile.budget_bytes, gib(112));
}

}  // namespace
}  // namespace gezel::capacity
