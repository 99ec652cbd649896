#include "capacity/growth.h"

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr int kFewestLanes = 2;

struct Reach {
  Tokens context = 0;
  Binding binding = Binding::none;
};

Reach reach(const GrowthInput& input, int slots) {
  Room room{.budget = input.fast_budget, .committed_other = input.committed_other, .reserve = input.reserve};
  if (input.discrete) {
    room.vram = input.vram;
    room.free_ram = 0;
  } else {
    room.free_ram = input.free_ram;
  }
  const Clamp clamp = clamp_context(input.target, slots, input.cost, room, 1);
  Reach out{clamp.context, clamp.binding};
  // slots * (fixed + context * token) <= ceiling
  const Bytes each = input.kv_ceiling / static_cast<std::uint64_t>(slots);
  const Tokens under_ceiling = static_cast<Tokens>(
      std::min<Bytes>(minus(each, input.cost.slot_fixed) / input.cost.token, kMaxBytes >> 1));
  if (under_ceiling < out.context) out = {under_ceiling / kClampGrain * kClampGrain, Binding::kv_ceiling};
  return out;
}

}  // namespace

Growth grow_context(const GrowthInput& input) {
  Growth out{.slots = input.slots, .context = input.base};
  if (!input.exact || (input.moe && input.discrete) || input.cost.token == 0 || input.target <= input.base)
    return out;

  const Reach untraded = reach(input, input.slots);
  Reach best = untraded;
  int slots = input.slots;
  if (!input.slots_configured) {
    const int fewest = std::min(input.slots, kFewestLanes);
    for (int fewer = input.slots - 1; fewer >= fewest && best.context < input.target; --fewer) {
      const Reach traded = reach(input, fewer);
      if (traded.context > best.context) {
        best = traded;
        slots = fewer;
      }
    }
    if (slots != input.slots && Wide(best.context) * 4 < Wide(std::max(untraded.context, input.base)) * 5) {
      best = untraded;
      slots = input.slots;
    }
  }
  out.binding = best.context < input.target ? best.binding : Binding::none;
  if (best.context <= input.base) return out;
  out.slots = slots;
  out.context = best.context;
  out.grown = true;
  return out;
}

}  // namespace gezel::capacity
