// capacity/ds4.h
//
// What the ds4 engine gets (spec 20 section 18): it streams experts from disk, so its memory is a working set
// that this plan chooses.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "capacity/memory_plan.h"
#include "capacity/profile.h"

namespace gezel::capacity {

struct Ds4Input {
  Platform platform = Platform::linux_os;
  bool arm64 = false;
  Bytes total_ram = 0;
  std::optional<Bytes> weights;
  std::optional<bool> streaming;                   // ds4SsdStreaming
  std::optional<std::uint64_t> cache_experts_gib;  // ds4CacheExpertsGb
  std::optional<Tokens> context;                   // ds4NumCtx or an override
  Tokens floor = 65'536;
  std::uint64_t kv_disk_mib = 16'384;  // GEZEL_DS4_KV_DISK_MB
  std::string kv_disk_dir;
  // The catalog entry's measurements.
  std::optional<Bytes> resident, cache_experts, kv_per_token;
  std::optional<Tokens> resident_context, max_launch_context;
};

struct Ds4Plan {
  bool streaming = true;
  std::uint64_t cache_experts_gib = 0;  // with streaming
  bool clamped = false;                 // less than was asked for
  MemoryPlan memory;                    // one slot; its working set counts as weights
  std::vector<std::string> arguments;
};
// Errors: `capacity-denied` when not even 1 GiB of experts can be cached beside the fixed part.
Result<Ds4Plan> plan_ds4(const Ds4Input& input);

// The measured working set at another window: its KV part grows with the context.
Bytes rebased_resident(Bytes resident, std::optional<Bytes> kv_per_token, std::optional<Tokens> measured_at,
                       Tokens context);

}  // namespace gezel::capacity
