#include "capacity/profile.h"

#include <gtest/gtest.h>

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
