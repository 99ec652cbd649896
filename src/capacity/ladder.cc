#include "capacity/ladder.h"

#include <fmt/format.h>

#include <array>

#include "capacity/arithmetic.h"
#include "capacity/budget.h"

namespace gezel::capacity {
namespace {

// The part of what the weights leave that caches may use.
constexpr std::uint64_t kUseNumerator = 4, kUseDenominator = 5;
constexpr std::int64_t kFreshMs = 5000;

constexpr auto kBindingNames =
    std::to_array<std::string_view>({"none", "budget", "live-memory", "kv-ceiling", "co-residency"});

Bytes slots_resident(const LinearCost& cost, int slots) {
  return plus(cost.resident, times(cost.slot_fixed, static_cast<std::uint64_t>(slots)));
}

Bytes cache_at(const LinearCost& cost, int slots, Tokens context) {
  return times(times(cost.token, static_cast<std::uint64_t>(context)), static_cast<std::uint64_t>(slots));
}

}  // namespace

std::string_view binding_name(Binding binding) {
  return kBindingNames[static_cast<std::size_t>(binding)];
}

Bytes live_reserve(Bytes total_ram) {
  const Bytes least = small_machine_reserve(std::min(total_ram, kSmallMachineBytes));
  return std::min(kLiveReserve, plus(least, minus(total_ram, kSmallMachineBytes)));
}

Clamp clamp_context(Tokens requested, int slots, const LinearCost& cost, const Room& room, Tokens floor) {
  Clamp out{.context = requested, .possible = requested};
  out.cap = minus(room.budget, room.committed_other);
  out.binding = Binding::budget;
  if (room.free_ram) {
    const Bytes live = plus(room.vram, minus(*room.free_ram, room.reserve));
    if (live < out.cap) {
      out.cap = live;
      out.binding = Binding::live_memory;
    }
  }
  if (cost.token == 0 || requested <= floor) {
    out.binding = Binding::none;
    return out;
  }
  // floor(allow / token / slots / 1024) * 1024 with allow = (cap - resident) * 4/5, divided once.
  const Wide allow = Wide{minus(out.cap, slots_resident(cost, slots))} * kUseNumerator;
  const Wide per_grain = Wide{cost.token} * static_cast<Wide>(slots) * kClampGrain * kUseDenominator;
  const Wide grains = std::min<Wide>(allow / per_grain, Wide{1} << 40);
  out.possible = static_cast<Tokens>(grains) * kClampGrain;
  out.context = std::max(floor, std::min(requested, out.possible));
  out.clamped = out.context < requested;
  if (!out.clamped) out.binding = Binding::none;
  return out;
}

std::string clamp_reason(const Clamp& clamp, Tokens requested, int slots, const LinearCost& cost,
                         const Room& room) {
  // A floor of one token stands for nothing.
  const Tokens granted = clamp.context > 1 ? clamp.context : 0;
  std::string text = fmt::format(
      "{} tokens were asked for and {} fit, with {} slot{}: weights and buffers take {}, the cache {} at {} "
      "tokens and {} at {}, and {} are available",
      requested, granted, slots, slots == 1 ? "" : "s", format_bytes(slots_resident(cost, slots)),
      format_bytes(cache_at(cost, slots, requested)), requested, format_bytes(cache_at(cost, slots, granted)),
      granted, format_bytes(clamp.cap));
  if (room.free_ram) {
    text += fmt::format(" ({} of main memory are free now", format_bytes(*room.free_ram));
    if (room.vram > 0) text += fmt::format(", and {} of graphics memory", format_bytes(room.vram));
    text += ")";
  }
  if (room.committed_other > 0)
    text += fmt::format("; other models hold {}", format_bytes(room.committed_other));
  return text + ".";
}

Ladder run_ladder(const LadderInput& input) {
  Ladder out;
  for (int slots = std::max(1, input.slots); slots >= 1; --slots) {
    out.slots = slots;
    out.clamp = clamp_context(input.requested, slots, input.cost, input.room, 1);
    out.satisfied = out.clamp.context >= input.minimum;
    if (out.satisfied) break;
  }
  out.context = out.clamp.context;
  out.clamped = out.clamp.clamped;
  if (out.clamped) out.reason = clamp_reason(out.clamp, input.requested, out.slots, input.cost, input.room);
  return out;
}

Ladder run_ladder(const LadderInput& input, std::optional<Tokens> below_floor) {
  const Ladder first = run_ladder(input);
  if (first.satisfied || !below_floor || *below_floor >= input.minimum) return first;
  // The last rung stands already: one slot with all that it can hold.
  Ladder second = first;
  second.satisfied = first.context >= *below_floor;
  second.below_floor = second.satisfied;
  return second;
}

Bytes live_vram(Bytes usable, std::optional<Bytes> measured_free, std::int64_t age_ms) {
  if (!measured_free || age_ms < 0 || age_ms > kFreshMs) return usable;
  return std::min(usable, *measured_free);
}

}  // namespace gezel::capacity
