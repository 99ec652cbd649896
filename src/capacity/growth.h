// capacity/growth.h
//
// A second pass after the ladder: fast memory that is left over becomes a longer window
// (spec 20 section 11.5).
#pragma once
#include "capacity/ladder.h"

namespace gezel::capacity {

// Caches are only grown into fast memory.
struct GrowthInput {
  Tokens base = 0;    // what the ladder granted
  Tokens target = 0;  // ContextRequirement::growth_target
  int slots = 1;      // what the ladder granted
  bool slots_configured = false;
  LinearCost cost;    // the same that the accepted plan used
  bool exact = true;  // from a geometry, not the heuristic
  bool moe = false;
  bool discrete = false;  // a card of its own
  Bytes fast_budget = 0, committed_other = 0;
  std::optional<Bytes> free_ram;  // live, one-pool machines
  Bytes vram = 0;                 // usable, cards
  Bytes reserve = kLiveReserve;   // of free_ram
  Bytes kv_ceiling = 0;           // auto_kv_ceiling()
};

struct Growth {
  int slots = 1;
  Tokens context = 0;
  bool grown = false;
  Binding binding = Binding::none;  // why the target was not reached
};

// Lanes are traded for length only when that gives at least a quarter more, never below two, and not
// where the user chose their number. A mixture of experts on a card never grows: it would push
// experts off the card.
Growth grow_context(const GrowthInput& input);

}  // namespace gezel::capacity
