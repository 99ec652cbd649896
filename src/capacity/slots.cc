#include "capacity/slots.h"

#include <array>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

struct Tier {
  Bytes below;
  int slots;
};
constexpr auto kTiers = std::to_array<Tier>({{12 * kGiB, 1}, {24 * kGiB, 2}, {48 * kGiB, 3}});
constexpr int kTopTier = 4;

constexpr Bytes kSmallModel = 2 * kGiB;
constexpr int kSmallModelSlots = 8, kMostSlots = 64;

// The part of free memory that slots may use.
constexpr std::uint64_t kLlamaPercent = 80, kMlxPercent = 65;

}  // namespace

int tier_slots(Bytes fast_bytes) {
  for (const Tier& tier : kTiers) {
    if (fast_bytes < tier.below) return tier.slots;
  }
  return kTopTier;
}

int slot_ceiling(const SlotInput& input) {
  const Bytes pool = std::min(input.fast_budget, input.concurrency_bytes);
  const Bytes free = minus(pool, plus(input.committed_other, input.resident));
  const std::uint64_t percent = input.family == EngineFamily::mlx ? kMlxPercent : kLlamaPercent;
  if (input.slot_kv == 0) return kMostSlots;
  const Wide slots = Wide{free} * percent / (Wide{input.slot_kv} * 100);
  return static_cast<int>(std::clamp<Wide>(slots, 1, kMostSlots));
}

int plan_slots(const SlotInput& input) {
  if (input.draft_mtp) return 1;
  if (input.configured) return *input.configured;
  const bool small = input.embedded && input.weights && *input.weights < kSmallModel;
  return std::max(1, std::min(small ? kSmallModelSlots : tier_slots(input.fast_bytes), slot_ceiling(input)));
}

Bytes slot_kv_bytes(const std::optional<KvGeometry>& geometry, Bytes weights, KvType type, Tokens context) {
  if (!geometry) return heuristic_kv_bytes(weights, type, context);
  const KvCost f16 = kv_cost(*geometry, KvType::f16);
  return quick_scaled(plus(times(f16.slope, static_cast<std::uint64_t>(context)), f16.fixed), type);
}

}  // namespace gezel::capacity
