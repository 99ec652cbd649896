// engine_llama/prompt_cache_settings.h
//
// What a person says about the prefix cache (spec 40 section 11.19, docs/prefix-cache.md).
#pragma once
#include <optional>

#include "base/bytes.h"

namespace gezel::engine_llama {

struct PromptCacheSettings {
  bool off = false;               // GEZEL_KV_MODE=none: every prompt is computed whole
  bool verify = false;            // GEZEL_KV_VERIFY=1: what was cached is compared with a cold run
  bool per_tenant = false;        // embeddedCacheScope "tenant": applications share nothing
  std::optional<Bytes> memory;    // cacheBudgetMb.embedded, of each model; unset: by the machine's memory
  std::optional<bool> disk;       // embeddedDiskCache, --no-disk-cache; unset: on
  std::optional<Bytes> disk_all;  // embeddedDiskCacheBudgetMb, of all models; 0: no limit
};
inline constexpr Bytes kDiskCacheBytes = 8192 * kMiB;

}  // namespace gezel::engine_llama
