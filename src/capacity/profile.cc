#include "capacity/profile.h"

#include <array>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr auto kPlatformNames = std::to_array<std::string_view>({"linux", "darwin", "win32"});
constexpr auto kKindNames =
    std::to_array<std::string_view>({"discrete", "integrated", "unified", "none", "unknown"});

struct Gpu {
  Bytes bytes = 0;
  GpuMemoryKind kind = GpuMemoryKind::unknown;
  std::string source, vendor;
};

std::optional<Gpu> find_gpu(const HostFacts& host) {
  if (host.nvidia) {
    const auto kind = host.nvidia->unified ? GpuMemoryKind::unified : GpuMemoryKind::discrete;
    return Gpu{host.nvidia->vram_bytes, kind, "gpu-nvidia", "nvidia"};
  }
  const system::Device* best = system::best_device(host.devices);
  if (!best) return std::nullopt;
  Gpu gpu{times(best->total_mib, kMiB), GpuMemoryKind::unknown, "gpu-vulkan",
          std::string(system::device_vendor(best->name))};
  switch (system::device_kind(*best)) {
    case system::DeviceKind::integrated:
      gpu.kind = GpuMemoryKind::integrated;
      gpu.source = "gpu-integrated";
      break;
    case system::DeviceKind::discrete:
      gpu.kind = GpuMemoryKind::discrete;
      break;
    case system::DeviceKind::unified:
      gpu.kind = GpuMemoryKind::unified;
      break;
    case system::DeviceKind::unknown:
      // Nearly as large as main memory: it is main memory.
      if (Wide{gpu.bytes} * 4 >= Wide{host.total_ram} * 3) gpu.kind = GpuMemoryKind::unified;
      break;
  }
  return gpu;
}

}  // namespace

std::string_view platform_name(Platform platform) {
  return kPlatformNames[static_cast<std::size_t>(platform)];
}
std::string_view gpu_memory_kind_name(GpuMemoryKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

Tokens rating_floor(const MemoryProfile& profile) {
  return context_floor(profile.fast_gpu_bytes().value_or(0), profile.total_ram_bytes);
}

MemoryProfile plan_profile(const HostFacts& host) {
  MemoryProfile out{.platform = host.platform, .total_ram_bytes = host.total_ram};
  BudgetInput input{.ram = host.total_ram, .unified = false, .override_bytes = host.budget_override};
  if (host.platform == Platform::macos) {
    input.unified = input.apple_arm = host.arm64;
    out.source = "darwin-unified";
    out.gpu_memory_kind = GpuMemoryKind::unified;
    out.budget = plan_budget(input);
    out.usable_bytes = out.budget_bytes = out.budget.budget_bytes;
    return out;
  }

  const auto gpu = find_gpu(host);
  out.source = gpu ? gpu->source : "system-ram-fallback";
  if (gpu) {
    out.gpu_vram_bytes = gpu->bytes;
    out.gpu_memory_kind = gpu->kind;
    out.gpu_vendor = gpu->vendor;
    input.vram = gpu->bytes;
    input.unified = gpu->kind == GpuMemoryKind::unified || gpu->kind == GpuMemoryKind::integrated;
  }
  out.budget = plan_budget(input);
  out.budget_bytes = out.budget.budget_bytes;
  // Without a fast pool of its own half of main memory counts as fast: the rest of the
  // machine lives there too.
  const bool shares_ram = !gpu || gpu->kind == GpuMemoryKind::integrated;
  out.usable_bytes = shares_ram ? host.total_ram / 2 : out.budget.fast_bytes;
  return out;
}

}  // namespace gezel::capacity
