// An interactive request that finds every slot taken gets the slot of a run nobody watches (spec 40
// section 11.15a.1). That run loses nothing: its rows go to the host under a reference, its sampler,
// constraint and pending token stay where they are, and it goes on where it stood when a slot is free again.
#include "scheduler/run.h"
#include "scheduler/scheduler.h"

namespace gezel::scheduler {
namespace {

// Then it keeps its slot: background work is slow beside people, but it ends.
constexpr int kMostPreemptions = 2;

}  // namespace

void Scheduler::preempt_for(const Run& waiting, MonotonicTime now) {
  if (waiting.spec.lane != prompt::Lane::interactive || cache_ == nullptr) return;
  Run* loser = nullptr;
  for (const auto& run : runs_) {
    // What is ephemeral or forgotten must not lie in the cache.
    if (run->slot < 0 || run->spec.lane == prompt::Lane::interactive) continue;
    if (run->spec.ephemeral || run->prompt.forgotten) continue;
    if (run->preemptions >= kMostPreemptions || run->fed == 0) continue;
    const bool lower = loser == nullptr || run->spec.lane > loser->spec.lane ||
                       (run->spec.lane == loser->spec.lane && run->order > loser->order);
    if (lower && cache_->can_park(run->slot)) loser = run.get();
  }
  if (loser == nullptr) return;
  if (moved_) {  // one image between two calls
    move_waits_ = true;
    return;
  }
  moved_ = true;
  Slot& slot = slots_[static_cast<std::size_t>(loser->slot)];
  if (!cache_->park(loser->prompt, loser->slot,
                    std::span(loser->keys).first(static_cast<std::size_t>(loser->fed)), loser->keys, now))
    return;
  move_waits_ = true;
  slot.run = nullptr;
  slot.tokens.clear();
  slot.last_used = ++use_counter_;
  loser->target = std::max(loser->prompt_tokens, loser->fed);
  loser->slot = -1;
  loser->fed = 0;
  loser->parked = true;
  loser->arrived = now;  // of waiting: nobody is starved by having been served
  ++loser->preemptions;
}

}  // namespace gezel::scheduler
