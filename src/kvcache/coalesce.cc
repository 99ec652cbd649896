#include "kvcache/coalesce.h"

#include <algorithm>

namespace gezel::kvcache {

void Coalescer::lead(RunNumber run, const Digest& domain, std::vector<Key> prompt,
                     std::vector<std::uint32_t> boundaries, std::uint32_t fed, Millis predicted,
                     MonotonicTime now) {
  waiters_.erase(run);
  leaders_[run] = {domain, std::move(prompt), std::move(boundaries), fed, now + 2 * predicted};
}

void Coalescer::predict(RunNumber run, Millis predicted, MonotonicTime now) {
  const auto leader = leaders_.find(run);
  if (leader == leaders_.end()) return;
  leader->second.deadline = now + 2 * predicted;
  for (auto& [id, waiter] : waiters_) {
    if (waiter.wait.leader == run) waiter.wait.deadline = leader->second.deadline;
  }
}

std::optional<std::uint32_t> Coalescer::next_boundary(RunNumber run) const {
  const auto leader = leaders_.find(run);
  return leader == leaders_.end() ? std::nullopt : boundary_after(run, leader->second.fed);
}

std::optional<std::uint32_t> Coalescer::boundary_after(RunNumber run, std::uint32_t tokens) const {
  const auto leader = leaders_.find(run);
  if (leader == leaders_.end()) return std::nullopt;
  const auto& all = leader->second.boundaries;
  const auto next = std::upper_bound(all.begin(), all.end(), tokens);
  return next == all.end() ? std::nullopt : std::optional(*next);
}

std::optional<std::uint32_t> Coalescer::next_wanted(RunNumber run) const {
  const auto leader = leaders_.find(run);
  std::optional<std::uint32_t> next;
  for (const auto& [id, waiter] : waiters_) {
    if (waiter.wait.leader != run || leader == leaders_.end() || waiter.wait.tokens <= leader->second.fed)
      continue;
    next = std::min(next.value_or(waiter.wait.tokens), waiter.wait.tokens);
  }
  return next;
}

bool Coalescer::wanted(RunNumber run, std::uint32_t boundary) const {
  return std::any_of(waiters_.begin(), waiters_.end(), [&](const auto& entry) {
    return entry.second.wait.leader == run && entry.second.wait.tokens == boundary;
  });
}

std::optional<Coalescer::Wait> Coalescer::wait(RunNumber run, const Digest& domain,
                                               std::span<const Key> prompt, std::uint32_t matched,
                                               MonotonicTime now) {
  Wait best;
  Leader* best_leader = nullptr;
  for (auto& [id, leader] : leaders_) {
    if (id == run || leader.domain != domain || leader.deadline <= now) continue;
    // One token of the prompt is always computed, and what the leader has fed beyond is its commit's matter.
    std::size_t common =
        std::min(common_prefix(leader.prompt, prompt), prompt.empty() ? 0 : prompt.size() - 1);
    common = outside_media(prompt, outside_media(leader.prompt, common));
    if (common < matched + kWorthWaitingTokens || common <= leader.fed) continue;
    // A boundary that it has anyway, if it is near enough; else one more at the parting itself.
    std::uint32_t at = static_cast<std::uint32_t>(common);
    const auto after = std::upper_bound(leader.boundaries.begin(), leader.boundaries.end(), at);
    if (after != leader.boundaries.begin()) {
      const std::uint32_t before = *std::prev(after);
      if (before > leader.fed && at - before < kWorthWaitingTokens && before >= matched + kWorthWaitingTokens)
        at = before;
    }
    if (at <= best.tokens) continue;
    best = {.leader = id, .tokens = at, .deadline = leader.deadline};
    best_leader = &leader;
  }
  if (best_leader == nullptr) return std::nullopt;
  auto& boundaries = best_leader->boundaries;
  const auto place = std::lower_bound(boundaries.begin(), boundaries.end(), best.tokens);
  if (place == boundaries.end() || *place != best.tokens) boundaries.insert(place, best.tokens);
  const auto known = waiters_.find(run);
  waiters_[run] = {best, known != waiters_.end() ? known->second.order : arrivals_++};
  return best;
}

std::vector<RunNumber> Coalescer::take(auto&& chosen) {
  std::vector<std::pair<std::uint64_t, RunNumber>> found;
  for (const auto& [run, waiter] : waiters_) {
    if (chosen(waiter.wait)) found.emplace_back(waiter.order, run);
  }
  std::sort(found.begin(), found.end());
  std::vector<RunNumber> runs;
  for (const auto& [order, run] : found) {
    waiters_.erase(run);
    runs.push_back(run);
  }
  return runs;
}

std::vector<RunNumber> Coalescer::advanced(RunNumber leader, std::uint32_t fed) {
  if (const auto found = leaders_.find(leader); found != leaders_.end()) found->second.fed = fed;
  return take([&](const Wait& wait) { return wait.leader == leader && wait.tokens <= fed; });
}

std::vector<RunNumber> Coalescer::ended(RunNumber leader) {
  leaders_.erase(leader);
  return take([&](const Wait& wait) { return wait.leader == leader; });
}

std::vector<RunNumber> Coalescer::expired(MonotonicTime now) {
  return take([&](const Wait& wait) { return wait.deadline <= now; });
}

void Coalescer::forget(RunNumber run) {
  waiters_.erase(run);
}

std::vector<RunNumber> Coalescer::waiting_for(RunNumber leader) const {
  std::vector<RunNumber> runs;
  for (const auto& [run, waiter] : waiters_) {
    if (waiter.wait.leader == leader) runs.push_back(run);
  }
  return runs;
}

const Coalescer::Wait* Coalescer::waiting(RunNumber run) const {
  const auto found = waiters_.find(run);
  return found == waiters_.end() ? nullptr : &found->second.wait;
}

}  // namespace gezel::kvcache
