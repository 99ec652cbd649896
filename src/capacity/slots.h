// capacity/slots.h
//
// How many sequences a model generates side by side (spec 20 section 9). One resolver for preview and launch.
#pragma once
#include <optional>

#include "capacity/budget.h"
#include "capacity/kv_size.h"
#include "capacity/resident.h"

namespace gezel::capacity {

// What is assumed of a model whose size is not known.
inline constexpr Bytes kUnknownWeights = 8 * kGiB;

// By fast memory: below 12 GiB 1, below 24 GiB 2, below 48 GiB 3, else 4.
int tier_slots(Bytes fast_bytes);

struct SlotInput {
  EngineFamily family = EngineFamily::llama_cpp;
  Bytes fast_bytes = 0;         // the machine's, decides the tier
  Bytes fast_budget = 0;        // the broker's
  Bytes concurrency_bytes = 0;  // Budget::concurrency_bytes
  Bytes committed_other = 0;    // reservations of other models
  std::optional<Bytes> weights;
  Bytes resident = 0;             // resident_bytes() or a dry run's figure
  Bytes slot_kv = 0;              // of one slot at the requested window, in the cache's type
  std::optional<int> configured;  // providerConcurrency of the engine
  bool embedded = false;          // our own worker
  bool draft_mtp = false;         // a multi-token-prediction head drafts: it serves one sequence
};

// Slots whose caches fit into what is free, with a part kept back (a fifth; 35 % for mlx); at least 1.
int slot_ceiling(const SlotInput& input);

// The configured number as it is, else the smaller of tier and ceiling; a small model in our own
// worker may have up to 8.
int plan_slots(const SlotInput& input);

// KV of one slot as slot counts price it: the geometry's f16 figure by the approximate scale of the type,
// else the heuristic.
Bytes slot_kv_bytes(const std::optional<KvGeometry>& geometry, Bytes weights, KvType type, Tokens context);

}  // namespace gezel::capacity
