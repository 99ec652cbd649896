// capacity/requirement.h
//
// How much context a model is to get: the least that is worth loading it for, what is asked for, and how far
// it may grow (spec 20 section 8). All figures are tokens of one slot.
#pragma once
#include <optional>

#include "base/bytes.h"
#include "capacity/kv_size.h"

namespace gezel::capacity {

inline constexpr Tokens kConstrainedFloor = 32'768;
inline constexpr Tokens kUsualFloor = 65'536;
// The least that is granted when nobody asked for a window and the floor does not fit.
inline constexpr Tokens kBelowFloorMinimum = 4'096;

// The floor of a machine: a card of at most 8 GiB, or without one at most 16 GiB of memory, is constrained.
// A rating passes the card's whole memory, a launch what is usable of it; 0 without a card of its own.
// Nothing known about the machine (both 0): the usual floor.
Tokens context_floor(Bytes vram, Bytes total_ram);

enum class ContextSizing { adaptive, model_max };

struct ContextWish {
  std::optional<Tokens> environment;     // GEZEL_LLAMA_NUM_CTX: the operator takes the consequences
  std::optional<Tokens> model_override;  // modelContextOverrides of this model
  std::optional<Tokens> configured;      // llamaCppNumCtx
  ContextSizing sizing = ContextSizing::adaptive;
  std::optional<Tokens> catalog;         // contextSize of the catalog entry
  std::optional<Tokens> native;          // the window the model was trained for
  std::optional<Tokens> growth_ceiling;  // GEZEL_LLAMA_GROWTH_CEILING_TOKENS
  // Of waiting requests: the load is worth nothing to them with less. More than `limit` counts as `limit`.
  std::optional<Tokens> needed;
};

struct ContextRequirement {
  Tokens native = 0, requested = 0, minimum = 0;
  Tokens limit = 0;   // the longest that any request may need: the model's own, or the one a person named
  Tokens needed = 0;  // by requests, at most `limit`; 0: nothing
  std::optional<Tokens> growth_target;  // above `requested`
  bool explicitly_asked = false;        // a person named a window
  bool strict = false;                  // model-max: slots may shrink, the window may not
  bool unchecked = false;               // by environment: granted whatever it costs
};

// The window between a request and the model's own: minimum = min(native, floor), requested = min(native,
// max(request or floor, minimum)).
ContextRequirement context_requirement(std::optional<Tokens> native, std::optional<Tokens> request,
                                       Tokens floor);

// The same for a llama-cpp launch with everything that may name a window.
ContextRequirement context_requirement(const ContextWish& wish, Tokens floor);

// What the below-floor run of a ladder may go down to, but never below what requests need; nothing when a
// person named a window.
std::optional<Tokens> below_floor_minimum(const ContextRequirement& requirement);

}  // namespace gezel::capacity
