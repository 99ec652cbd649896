// capacity/budget.h
//
// How much memory models may take on this machine, and which part of it is fast (spec 20 section 4).
//
// Three figures, because they answer different questions: whether a model may be loaded at all is asked of
// the whole budget, how large caches may grow of the fast part, and how many sequences run side by side of a
// smaller one still: a budget that lets more models fit must not hand one of them more slots.
#pragma once
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace gezel::capacity {

enum class PoolKind {
  unified,       // GPU and processor share one memory
  discrete_gpu,  // a card with its own memory, and main memory beside it
  system_ram,    // no GPU
};
std::string_view pool_kind_name(PoolKind kind);  // "unified", "discrete-gpu", "system-ram"

struct BudgetInput {
  Bytes ram = 0;                        // what this process may ever use
  Bytes vram = 0;                       // 0: no GPU
  std::optional<bool> unified;          // absent: judged by platform and proportion
  bool apple_arm = false;               // macOS on arm64
  std::optional<Bytes> override_bytes;  // GEZEL_CAPACITY_BUDGET_GB, see parse_gib()
};

struct Budget {
  PoolKind kind = PoolKind::system_ram;
  Bytes budget_bytes = 0;       // ram_share + vram: what all models together may take
  Bytes ram_share_bytes = 0;    // the part of it that is main memory
  Bytes vram_bytes = 0;         // the part of it that is a card's; 0 without one
  Bytes fast_bytes = 0;         // where caches run at speed
  Bytes concurrency_bytes = 0;  // what slot counts are sized by
};

Budget plan_budget(const BudgetInput& input);

// Memory for computed prompts beside the slots, of one engine (spec 40 section 2.1): 2 GiB, from 16 GiB of
// RAM on 4, from 32 on 8, from 64 on 16.
Bytes default_prompt_cache(Bytes ram);

// A machine below this keeps a fixed part for everything else, instead of a share that would leave models
// nothing. Larger machines never get less than one of exactly this size.
inline constexpr Bytes kSmallMachineBytes = 4 * kGiB;
Bytes small_machine_reserve(Bytes ram);  // max(128 MiB, a tenth)

// "20", "0.5": GiB, rounded to bytes. Nothing for anything that is not a positive decimal number; such a
// setting is ignored.
std::optional<Bytes> parse_gib(std::string_view text);

// How far automatic decisions may enlarge KV caches: max(8 GiB, a quarter of the fast budget), or what the
// user set (autoKvCacheMaxGb). A user's explicit context is not bound by it.
Bytes auto_kv_ceiling(Bytes fast_bytes, std::optional<Bytes> configured = {});

}  // namespace gezel::capacity
