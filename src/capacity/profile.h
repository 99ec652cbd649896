// capacity/profile.h
//
// The machine in one line: what kind of fast memory it has and how much of it models may use (spec 20 section
// 3). Ratings, the first choice of a model and `gezel doctor` read this.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "capacity/budget.h"
#include "capacity/requirement.h"
#include "system/devices.h"

namespace gezel::capacity {

enum class Platform { linux_os, macos, windows };
std::string_view platform_name(Platform platform);  // "linux", "darwin", "win32"

enum class GpuMemoryKind { discrete, integrated, unified, none, unknown };
std::string_view gpu_memory_kind_name(GpuMemoryKind kind);

struct HostFacts {
  Platform platform = Platform::linux_os;
  bool arm64 = false;
  Bytes total_ram = 0;
  std::optional<system::NvidiaMemory> nvidia;  // nvidia-smi has an answer
  std::vector<system::Device> devices;         // the engine's own list
  std::optional<Bytes> budget_override;        // GEZEL_CAPACITY_BUDGET_GB
};

struct MemoryProfile {
  Platform platform = Platform::linux_os;
  Bytes total_ram_bytes = 0;
  std::optional<Bytes> gpu_vram_bytes;
  GpuMemoryKind gpu_memory_kind = GpuMemoryKind::none;
  std::string
      source;  // "gpu-nvidia", "gpu-vulkan", "gpu-integrated", "darwin-unified", "system-ram-fallback"
  Bytes usable_bytes = 0;  // fast memory
  Bytes budget_bytes = 0;  // what all models together may take
  std::string gpu_vendor;  // by the probe that sized the device; "" = unknown
  Budget budget;

  // An adapter's share of main memory is part of total_ram_bytes; who adds the two up gets nothing for it.
  std::optional<Bytes> fast_gpu_bytes() const {
    const bool own = gpu_memory_kind != GpuMemoryKind::integrated && gpu_memory_kind != GpuMemoryKind::none;
    return own ? gpu_vram_bytes : std::nullopt;
  }
};

MemoryProfile plan_profile(const HostFacts& host);

// The window at which catalog entries are compared with this machine.
Tokens rating_floor(const MemoryProfile& profile);

// How long a profile holds before the machine is looked at again.
inline constexpr std::int64_t kProfileFreshMs = 60'000;

}  // namespace gezel::capacity
