// Which slot a waiting run gets, and what is in it then. The decision is kvcache::choose_slot(); with a
// prefix cache the slot's last content is saved and the prompt's head is brought in, one move between two
// calls of the engine, so that live streams wait for one copy at most.
#include <algorithm>

#include "kvcache/slot_choice.h"
#include "scheduler/run.h"
#include "scheduler/scheduler.h"

namespace gezel::scheduler {
namespace {

// For so long nobody but its own conversation gets the slot of a conversation that was forked.
constexpr Millis kForkKeeps{60'000};

std::uint32_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::uint32_t>(end - a.begin());
}

}  // namespace

// Tokens of `prompt` that an idle slot's cells can serve: at least one token is always computed, because its
// logits are needed, and the memory must be able to be cut there.
std::uint32_t Scheduler::reusable(const Slot& slot, int index, std::span<const Token> prompt) const {
  if (!options_.reuse || prompt.empty()) return 0;
  const auto keep =
      std::min(common_prefix(slot.tokens, prompt), static_cast<std::uint32_t>(prompt.size() - 1));
  if (keep == 0 || keep == slot.tokens.size()) return keep;
  if (options_.recurrent) return 0;
  if (!kvcache::window_allows(keep, static_cast<std::uint32_t>(options_.sliding_window),
                              decoder_.position_min(index)))
    return 0;
  return keep;
}

std::vector<kvcache::SlotState> Scheduler::slot_states(const RunSpec& spec, std::span<const Token> keys,
                                                       MonotonicTime now) const {
  std::vector<kvcache::SlotState> states;
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = slots_[static_cast<std::size_t>(index)];
    kvcache::SlotState state{.live = slot.run != nullptr,
                             .held = static_cast<std::uint32_t>(slot.tokens.size()),
                             .last_used = slot.last_used,
                             .kept_until = slot.kept_until};
    // A fork does not go on in the slot that it was forked from.
    const bool forked = slot.kept_until > now && slot.session != spec.session;
    if (!state.live && !forked && slot.tenant == spec.tenant) state.keep = reusable(slot, index, keys);
    states.push_back(state);
  }
  return states;
}

// False: nobody behind it gets a slot now either.
bool Scheduler::try_assign(Run& run, MonotonicTime now) {
  kvcache::Resume offer = cache_ != nullptr ? cache_->offer(run.prompt) : kvcache::Resume{};
  const auto states = slot_states(run.spec, run.keys, now);
  const auto size = static_cast<std::uint32_t>(run.keys.size());
  if (cache_ != nullptr && !cache_->can_move(offer)) offer = {};
  kvcache::SlotChoice choice = kvcache::choose_slot(states, size, offer.tokens, now);
  const bool continues = choice.kind == kvcache::SlotChoice::Kind::continues;
  if (cache_ != nullptr) {
    if (cache_->must_wait(run.prompt, std::max(choice.keep, offer.tokens), now)) return true;
    if (!continues && cache_->fetch(run.prompt, offer, now)) return true;
    if (offer.needs_disk()) offer = cache_->offer(run.prompt);  // it does without
  }
  if (choice.slot < 0) {
    preempt_for(run, now);
    return false;
  }
  if (continues) {
    occupy(run, choice.slot, choice.keep, nullptr, now);
    return true;
  }
  // The cells that the slot shares with the prompt are as good as what would be brought in.
  const std::uint32_t own = states[static_cast<std::size_t>(choice.slot)].keep;
  const bool keeps_own = own >= kvcache::kMinResumeTokens && own >= offer.tokens;
  const bool imports = !keeps_own && offer.tokens > 0;
  const bool saves = cache_ != nullptr && cache_->worth_saving(choice.slot);
  const bool exports = imports && offer.needs_export();
  if ((saves || exports || imports) && moved_) {
    move_waits_ = true;
    return false;
  }
  if (exports) {
    for (const kvcache::ResumeStep& step : offer.steps) {
      if (step.source == kvcache::Source::slot) {
        cache_->save(step.slot, false);
        break;
      }
    }
    // What could not be exported will not come: it is used where it is, or computed.
    if (cache_->offer(run.prompt).needs_export()) {
      choice = kvcache::choose_slot(states, size, 0, now);
      occupy(run, choice.slot, states[static_cast<std::size_t>(choice.slot)].keep, nullptr, now);
      return true;
    }
  } else if (saves) {
    cache_->save(choice.slot, !keeps_own);
    if (!keeps_own) slots_[static_cast<std::size_t>(choice.slot)].tokens.clear();
    if (cache_->worth_saving(choice.slot)) cache_->dropped(choice.slot);  // it did not work: once is enough
  }
  if (exports || saves) {
    moved_ = move_waits_ = true;
    return false;
  }
  occupy(run, choice.slot, keeps_own ? own : 0, imports ? &offer : nullptr, now);
  return true;
}

void Scheduler::occupy(Run& run, int index, std::uint32_t keep, const kvcache::Resume* offer,
                       MonotonicTime now) {
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  const auto held = static_cast<std::uint32_t>(slot.tokens.size());
  const CachedTiers tiers = run.prompt.tiers;
  const auto clear = [&] {
    decoder_.remove(index, -1, -1);
    keep = 0;
  };
  if (keep == 0) {
    if (held > 0 || decoder_.position_max(index) >= 0) clear();
  } else if (keep < held && !decoder_.remove(index, static_cast<std::int32_t>(keep), -1)) {
    clear();
  }
  // The books and the memory must agree; if they do not, the cells are worthless.
  if (keep > 0 && decoder_.position_max(index) != static_cast<std::int32_t>(keep) - 1) clear();

  slot.tokens.clear();
  sink_.on_slot(index, {});
  if (cache_ != nullptr) {
    if (keep > 0) {
      cache_->keep(run.prompt, index, keep, now);
    } else {
      cache_->dropped(index);
    }
    if (offer != nullptr) {
      moved_ = true;
      if (cache_->import(run.prompt, *offer, index, now)) keep = offer->tokens;
    }
  } else {
    run.prompt.tiers.slot = keep;
  }
  slot.run = &run;
  slot.session = run.spec.session;
  slot.tenant = run.spec.tenant;
  run.slot = index;
  run.fed = keep;
  if (std::exchange(run.parked, false)) {
    // What it was told of its prompt when it began still holds.
    run.prompt.tiers = tiers;
    if (run.fed < run.prompt_tokens && cache_ != nullptr)
      cache_->begin(run.prompt, keep, predicted_time(run), now);
    return;
  }
  run.cached = keep;
  run.slot_granted = clock_.now();
  prompt_tokens_ += static_cast<std::uint64_t>(run.prompt_tokens);
  cached_tokens_ += static_cast<std::uint64_t>(run.cached);
  if (cache_ != nullptr) cache_->begin(run.prompt, keep, predicted_time(run), now);
  sink_.on_prefill(run.spec.id, run.fed, run.prompt_tokens);
}

// How long the rest of its prompt will take, with what else is to be computed meanwhile.
Millis Scheduler::predicted_time(const Run& run) const {
  const double tokens = static_cast<double>(run.target - run.fed);
  double ms = costs_.knows_prefill() ? costs_.prefill_ms(run.target - run.fed, run.fed) : tokens;
  int prompts = 0, streams = 0;
  for (const auto& other : runs_) {
    prompts += other->prefilling() ? 1 : 0;
    streams += other->decoding() ? 1 : 0;
  }
  ms *= std::max(prompts, 1);
  // Beside live streams a prompt goes in small chunks with a call for the streams between them.
  if (streams > 0) ms *= 3;
  return Millis(500 + static_cast<std::int64_t>(ms));
}

void Scheduler::assign_slots() {
  const MonotonicTime now = assigned_at_ = clock_.now();
  move_waits_ = false;
  if (cache_ != nullptr) cache_->tend(now);
  std::vector<Run*> waiting = waiting_runs(now);
  for (Run* run : waiting) {
    if (!try_assign(*run, now)) break;
  }
  report_queue(now);
}

std::vector<Scheduler::Run*> Scheduler::waiting_runs(MonotonicTime now) const {
  std::vector<Run*> waiting;
  for (const auto& run : runs_) {
    if (run->slot < 0) waiting.push_back(run.get());
  }
  std::sort(waiting.begin(), waiting.end(), [&](const Run* a, const Run* b) { return before(*a, *b, now); });
  return waiting;
}

void Scheduler::poke() {
  if (poisoned_) return;
  moved_ = false;
  assign_slots();
}

void Scheduler::report_queue(MonotonicTime now) {
  std::int64_t ahead = -1;
  for (Run* run : waiting_runs(now)) {
    if (run->reported_ahead == ++ahead) continue;
    run->reported_ahead = ahead;
    sink_.on_queued(run->spec.id, ahead);
  }
}

std::optional<MonotonicTime> Scheduler::wake_at() const {
  std::optional<MonotonicTime> first;
  for (const auto& run : runs_) {
    if (run->slot >= 0 || !run->prompt.fetch_until) continue;
    // Nothing came of it when it had come: somebody before it waits for a slot.
    if (*run->prompt.fetch_until <= assigned_at_) continue;
    if (!first || *run->prompt.fetch_until < *first) first = run->prompt.fetch_until;
  }
  return first;
}

void Scheduler::leave_to_family(const std::string& session, MonotonicTime now) {
  if (session.empty()) return;
  for (Slot& slot : slots_) {
    if (slot.session == session) slot.kept_until = now + kForkKeeps;
  }
}

Forecast Scheduler::forecast(const RunSpec& spec) const {
  Forecast out;
  CachedPrompt prompt = cached_prompt(spec);
  kvcache::Resume offer = cache_ != nullptr ? cache_->offer(prompt) : kvcache::Resume{};
  if (cache_ != nullptr && !cache_->can_move(offer)) offer = {};
  const MonotonicTime now = clock_.now();
  const auto choice = kvcache::choose_slot(slot_states(spec, spec.prompt, now),
                                           static_cast<std::uint32_t>(spec.prompt.size()), offer.tokens, now);
  out.cached = std::max(choice.keep, offer.tokens);
  if (cache_ != nullptr) out.prefix_break = cache_->find_break(prompt);
  return out;
}

CachedPrompt Scheduler::cached_prompt(const RunSpec& spec) const {
  CachedPrompt prompt;
  prompt.id = spec.id;
  prompt.keys = kvcache::token_keys(spec.prompt);
  prompt.token_ends = spec.token_ends;
  prompt.spans = spec.spans;
  prompt.session = spec.session;
  if (cache_ != nullptr) prompt.domain = cache_->domain_for(spec.tenant);
  prompt.ephemeral = spec.ephemeral;
  prompt.arrived = clock_.now();
  return prompt;
}

// Runs stay where they stand: their end is told by the end of the process.
void Scheduler::freeze(MonotonicTime until) {
  if (cache_ == nullptr || poisoned_) return;
  for (const auto& run : runs_) {
    cache_->finish(run->prompt, run->slot,
                   std::span(run->keys).first(static_cast<std::size_t>(std::max<std::int64_t>(0, run->fed))),
                   clock_.now());
  }
  cache_->save_everything();
  cache_->settle(until);
}

}  // namespace gezel::scheduler
