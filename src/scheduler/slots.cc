// Which slot a waiting run gets (spec 40 section 11.12.8). A slot whose cells the prompt continues wins;
// otherwise an empty one; otherwise the least recently used. The longest common prefix alone would send every
// new conversation with the same system text into the first one's slot and destroy that conversation. Ties go
// to a slot next to a live one: consecutive slots share a micro-batch, scattered ones do not.
#include <algorithm>
#include <tuple>

#include "scheduler/run.h"
#include "scheduler/scheduler.h"

namespace gezel::scheduler {
namespace {

constexpr std::int64_t kContinuationKeep =
    16;  // tokens that must be shared for a slot to be "its" conversation
constexpr std::int64_t kContinuationLose = 64;  // tokens it may lose: the last turn asked again

std::int64_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return end - a.begin();
}

}  // namespace

// Tokens of `prompt` that an idle slot's cells can serve: at least one token is always computed, because its
// logits are needed, and the memory must be able to be cut there.
std::int64_t Scheduler::reusable(const Slot& slot, int index, std::span<const Token> prompt) const {
  const std::int64_t keep =
      std::min(common_prefix(slot.tokens, prompt), static_cast<std::int64_t>(prompt.size()) - 1);
  const auto held = static_cast<std::int64_t>(slot.tokens.size());
  if (keep <= 0) return 0;
  if (keep == held) return keep;
  if (options_.recurrent) return 0;
  if (options_.sliding_window > 0) {
    // The window of the token after the cut must still be there.
    const std::int64_t needed = std::max<std::int64_t>(0, keep - options_.sliding_window + 1);
    if (needed < decoder_.position_min(index)) return 0;
  }
  return keep;
}

Scheduler::Choice Scheduler::choose_slot(std::span<const Token> prompt) const {
  Choice best;
  std::tuple<int, std::int64_t, bool, std::int64_t> best_rank{};
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.run != nullptr) continue;
    const std::int64_t keep = reusable(slot, index, prompt);
    const std::int64_t lose = static_cast<std::int64_t>(slot.tokens.size()) - keep;
    const bool beside_live =
        (index > 0 && slots_[static_cast<std::size_t>(index) - 1].run != nullptr) ||
        (index + 1 < options_.slots && slots_[static_cast<std::size_t>(index) + 1].run != nullptr);
    std::tuple<int, std::int64_t, bool, std::int64_t> rank;
    if (keep >= kContinuationKeep && lose <= kContinuationLose) {
      rank = {3, keep, beside_live, -index};
    } else if (slot.tokens.empty()) {
      rank = {2, 0, beside_live, -index};
    } else {
      rank = {1, -static_cast<std::int64_t>(slot.last_used), beside_live, -index};
    }
    if (best.slot < 0 || rank > best_rank) {
      best = {index, keep};
      best_rank = rank;
    }
  }
  return best;
}

void Scheduler::occupy(Run& run, Choice choice) {
  Slot& slot = slots_[static_cast<std::size_t>(choice.slot)];
  const auto held = static_cast<std::int64_t>(slot.tokens.size());
  const auto clear = [&] {
    decoder_.remove(choice.slot, -1, -1);
    choice.keep = 0;
  };
  if (choice.keep == 0) {
    if (held > 0 || decoder_.position_max(choice.slot) >= 0) clear();
  } else if (choice.keep < held &&
             !decoder_.remove(choice.slot, static_cast<std::int32_t>(choice.keep), -1)) {
    clear();
  }
  // The books and the memory must agree; if they do not, the cells are worthless.
  if (choice.keep > 0 && decoder_.position_max(choice.slot) != choice.keep - 1) clear();

  slot.tokens.clear();
  sink_.on_slot(choice.slot, {});
  slot.run = &run;
  run.slot = choice.slot;
  run.fed = run.cached = choice.keep;
  run.slot_granted = clock_.now();
  prompt_tokens_ += static_cast<std::uint64_t>(run.prompt_tokens);
  cached_tokens_ += static_cast<std::uint64_t>(run.cached);
  sink_.on_prefill(run.spec.id, run.fed, run.prompt_tokens);
}

void Scheduler::assign_slots() {
  const MonotonicTime now = clock_.now();
  while (true) {
    Run* next = nullptr;
    for (const auto& run : runs_) {
      if (run->slot < 0 && (next == nullptr || before(*run, *next, now))) next = run.get();
    }
    if (next == nullptr) break;
    const Choice choice = choose_slot(next->keys);
    if (choice.slot < 0) break;
    occupy(*next, choice);
  }
  report_queue(now);
}

void Scheduler::report_queue(MonotonicTime now) {
  std::vector<Run*> waiting;
  for (const auto& run : runs_) {
    if (run->slot < 0) waiting.push_back(run.get());
  }
  std::sort(waiting.begin(), waiting.end(), [&](const Run* a, const Run* b) { return before(*a, *b, now); });
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const auto ahead = static_cast<std::int64_t>(i);
    if (waiting[i]->reported_ahead == ahead) continue;
    waiting[i]->reported_ahead = ahead;
    sink_.on_queued(waiting[i]->spec.id, ahead);
  }
}

std::int64_t Scheduler::forecast_cached(std::span<const Token> prompt) const {
  return choose_slot(prompt).keep;
}

}  // namespace gezel::scheduler
