// capacity/ladder.h
//
// How much context fits: concurrency is shed before context, context before the load is denied, and the
// window is never shortened below the minimum (spec 20 sections 11.1, 11.2).
//
// Pure policy. The clamp is the one inequality everything rests on: weights + slots * context * kv, with a
// fifth of what the weights leave kept back, inside both the budget and what is really free.
#pragma once
#include <optional>
#include <string>

#include "base/bytes.h"
#include "capacity/kv_size.h"

namespace gezel::capacity {

// What holds a plan back.
enum class Binding {
  none,
  budget,        // what models may take of this machine, less what others hold
  live_memory,   // what is free right now
  kv_ceiling,    // the limit on automatic growth of caches
  co_residency,  // the card, beside other models
};
std::string_view binding_name(Binding binding);  // "none", "budget", "live-memory", ...

// Costs of one cache layout: weights and buffers once; a slot's windows and states; a slot's token.
struct LinearCost {
  Bytes resident = 0;
  Bytes slot_fixed = 0;
  Bytes token = 0;  // 0: unknown, nothing is clamped
};

// Main memory that is never handed out of what is free now.
inline constexpr Bytes kLiveReserve = 2 * kGiB;
// The same by the size of the machine: below 4 GiB what the budget keeps back there (budget.h), from there on
// growing with the machine up to kLiveReserve.
Bytes live_reserve(Bytes total_ram);

struct Room {
  Bytes budget = 0;
  Bytes committed_other = 0;
  std::optional<Bytes> free_ram;  // now; absent: policy alone decides
  Bytes vram = 0;                 // usable memory of a card now, see live_vram(); 0 on one-pool machines
  Bytes reserve = kLiveReserve;   // of free_ram
};

inline constexpr Tokens kClampGrain = 1024;
inline constexpr Tokens kClampFloor = 8192;

struct Clamp {
  Tokens context = 0;  // per slot
  bool clamped = false;
  Tokens possible = 0;  // what the inequality gives, in whole kClampGrain; 0: nothing
  Bytes cap = 0;        // what weights and cache may take together
  Binding binding = Binding::none;
};

// `floor` is granted whatever it costs.
Clamp clamp_context(Tokens requested, int slots, const LinearCost& cost, const Room& room,
                    Tokens floor = kClampFloor);

// One sentence for a clamp: what was asked and granted, the weights, the cache at both, and the memory.
std::string clamp_reason(const Clamp& clamp, Tokens requested, int slots, const LinearCost& cost,
                         const Room& room);

struct LadderInput {
  Tokens requested = 0, minimum = 0;
  int slots = 1;
  LinearCost cost;
  Room room;
};

struct Ladder {
  int slots = 1;
  Tokens context = 0;  // per slot
  bool clamped = false;
  bool satisfied = false;  // context >= minimum
  bool below_floor = false;
  Clamp clamp;         // of the rung that was taken
  std::string reason;  // set when clamped
};

// The first rung, from the requested slots down to one, that holds the minimum; without any, one slot with
// what it could hold.
Ladder run_ladder(const LadderInput& input);

// The same, and where not even one slot holds the minimum, one slot is tried once more with `below_floor`
// (requirement.h: nobody named a window). A shorter window for one conversation is better than none.
Ladder run_ladder(const LadderInput& input, std::optional<Tokens> below_floor);

// What a card can give now: usable memory, lowered by a measurement of at most 5 s age.
Bytes live_vram(Bytes usable, std::optional<Bytes> measured_free, std::int64_t age_ms);

}  // namespace gezel::capacity
