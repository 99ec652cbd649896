#include "kvcache/slot_choice.h"

#include <algorithm>
#include <tuple>

namespace gezel::kvcache {
namespace {

constexpr std::uint32_t kContinuationKeep = 16;  // tokens that make a slot "its" conversation
constexpr std::uint32_t kContinuationLose = 64;  // tokens it may lose: the last turn asked again

// Most of the prompt lies in this slot, and less than half of that could be brought into another one: there
// is no memory for it. To compute it anew costs more than what the slot loses. Three quarters, so that two
// conversations with the same system text do not drive each other out of one slot for long: with every turn
// the common part becomes less of their prompts, and each gets a slot of its own.
bool only_here(std::uint32_t keep, std::uint32_t prompt_tokens, std::uint32_t matched) {
  return keep >= kContinuationKeep && std::uint64_t{keep} * 4 >= std::uint64_t{prompt_tokens} * 3 &&
         std::uint64_t{matched} * 2 < keep;
}

}  // namespace

SlotChoice choose_slot(std::span<const SlotState> slots, std::uint32_t prompt_tokens, std::uint32_t matched,
                       MonotonicTime now) {
  using Kind = SlotChoice::Kind;
  const std::uint32_t most = prompt_tokens == 0 ? 0 : prompt_tokens - 1;
  const std::uint32_t enough = std::max(kContinuationKeep, std::min(matched, most));
  SlotChoice best;
  // Higher is better: kind, then by kind keep or age, then beside a live slot (consecutive slots share a
  // micro-batch), then the lower index.
  std::tuple<int, bool, std::int64_t, bool, std::int64_t> best_rank{};
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const SlotState& slot = slots[i];
    if (slot.live) continue;
    const bool beside = (i > 0 && slots[i - 1].live) || (i + 1 < slots.size() && slots[i + 1].live);
    const std::uint32_t keep = std::min({slot.keep, slot.held, most});
    const auto index = -static_cast<std::int64_t>(i);
    SlotChoice choice{.slot = static_cast<int>(i)};
    std::tuple<int, bool, std::int64_t, bool, std::int64_t> rank;
    const bool continues = keep >= enough && slot.held - keep <= kContinuationLose;
    if (continues || only_here(keep, most, matched)) {
      choice.kind = Kind::continues;
      choice.keep = keep;
      rank = {3, true, keep, beside, index};
    } else if (slot.held == 0) {
      choice.kind = Kind::empty;
      rank = {2, true, 0, beside, index};
    } else {
      choice.kind = Kind::recycled;
      rank = {1, slot.kept_until <= now, -static_cast<std::int64_t>(slot.last_used), beside, index};
    }
    if (best.kind != Kind::none && rank <= best_rank) continue;
    best = choice;
    best_rank = rank;
  }
  return best;
}

bool window_allows(std::uint32_t tokens, std::uint32_t sliding_window, std::int32_t position_min) {
  if (sliding_window == 0) return true;
  const std::int64_t oldest = std::max<std::int64_t>(0, std::int64_t{tokens} - sliding_window + 1);
  return oldest >= position_min;
}

}  // namespace gezel::kvcache
