// kvcache/slot_choice.h
//
// Which idle slot a waiting run gets (spec 40 section 11.12.8). A slot whose cells the prompt continues wins;
// otherwise an empty one; otherwise the least recently used. The longest common prefix alone would send every
// new conversation with the same system text into the first one's slot; the tree gives it that text anyway.
// Where it cannot, because there is no memory for what would be moved, a slot with most of the prompt is used
// however much it loses.
#pragma once
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace gezel::kvcache {

struct SlotState {
  bool live = false;       // a run is in it
  std::uint32_t held = 0;  // tokens in its cells
  std::uint32_t keep = 0;  // of those, how many the prompt can use: common, cut where the memory can be cut
  std::uint64_t last_used = 0;  // any ascending number
  // Not to be taken from its conversation before this time (a fork's parent), while another slot is idle.
  MonotonicTime kept_until{};
};

struct SlotChoice {
  enum class Kind { none, continues, empty, recycled };
  Kind kind = Kind::none;
  int slot = -1;
  std::uint32_t keep = 0;  // tokens of the slot that stay; 0 unless `continues`
};

// `matched`: what can be brought into any slot of the prompt (0 without a tree, or without memory to move
// it).
SlotChoice choose_slot(std::span<const SlotState> slots, std::uint32_t prompt_tokens, std::uint32_t matched,
                       MonotonicTime now);

// Mode window: can a slot whose oldest complete position is `position_min` be cut back to `tokens`?
bool window_allows(std::uint32_t tokens, std::uint32_t sliding_window, std::int32_t position_min);

}  // namespace gezel::kvcache
