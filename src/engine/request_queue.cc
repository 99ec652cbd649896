// Few wait at once, so every question looks at all of them; nothing is kept in order that could fall out of
// it as time passes.
#include "engine/request_queue.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace gezel::engine {

using prompt::Lane;

bool RequestQueue::push(Entry entry, MonotonicTime now) {
  if (waiting_.size() >= kMaxWaiting) return false;
  if (!entry.ambient) last_other_ = now;
  const auto older = std::ranges::find_if(waiting_.rbegin(), waiting_.rend(),
                                          [&](const Entry& e) { return e.since <= entry.since; });
  waiting_.insert(older.base(), std::move(entry));
  return true;
}

std::optional<std::uint64_t> RequestQueue::pop(MonotonicTime now) {
  if (waiting_.empty() || running_.size() >= static_cast<std::size_t>(widths_.concurrency))
    return std::nullopt;
  std::optional<Rank> next;
  for (const auto& rank : ranks(now)) {
    if (may_go(waiting_[std::get<std::size_t>(rank)], now) && (!next || rank < *next)) next = rank;
  }
  if (!next) return std::nullopt;
  const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(std::get<std::size_t>(*next));
  Entry entry = std::move(*at);
  waiting_.erase(at);
  if (!entry.ambient) last_other_ = now;
  const auto id = entry.id;
  running_.emplace(id, std::move(entry));
  return id;
}

void RequestQueue::finish(std::uint64_t id, MonotonicTime now) {
  const auto node = running_.extract(id);
  if (!node) return;
  Entry& entry = node.mapped();
  if (!entry.ambient) last_other_ = now;
  if (entry.session.empty() && entry.caller.empty()) return;
  served_.push_back({std::move(entry.session), std::move(entry.caller), now});
  if (served_.size() > kMostRemembered) served_.pop_front();
}

bool RequestQueue::remove(std::uint64_t id) {
  return std::erase_if(waiting_, [id](const Entry& e) { return e.id == id; }) > 0;
}

bool RequestQueue::move(std::uint64_t id, int places) {
  const auto found = std::ranges::find(waiting_, id, &Entry::id);
  if (found == waiting_.end()) return false;
  auto at = static_cast<std::size_t>(found - waiting_.begin());
  const bool up = places > 0;
  for (int left = up ? places : -places; left > 0; --left) {
    auto other = at;
    do {
      if (up ? other == 0 : other + 1 == waiting_.size()) return true;
      other = up ? other - 1 : other + 1;
    } while (waiting_[other].lane != waiting_[at].lane);
    std::swap(waiting_[at], waiting_[other]);
    at = other;
  }
  return true;
}

void RequestQueue::clear() {
  waiting_.clear();
  running_.clear();
}

// --- the order

bool RequestQueue::starves(const Entry& entry, MonotonicTime now) const {
  return entry.lane != Lane::batch && now - entry.since > kStarving;
}

// How warm the engine is for each: 2, its conversation runs or ran a moment ago; 1, its caller does; 0,
// neither.
std::vector<int> RequestQueue::affinities(MonotonicTime now) const {
  std::vector<int> out(waiting_.size());
  if (!settings_.affinity || waiting_.empty()) return out;
  std::set<std::string_view> sessions, callers;
  const auto note = [&](const auto& other) {
    if (!other.session.empty()) sessions.insert(other.session);
    if (!other.caller.empty()) callers.insert(other.caller);
  };
  for (const auto& [id, running] : running_) note(running);
  for (const auto& served : served_) {
    if (now - served.at <= kRemembered) note(served);
  }
  std::ranges::transform(waiting_, out.begin(), [&](const Entry& entry) {
    return sessions.contains(entry.session) ? 2 : callers.contains(entry.caller) ? 1 : 0;
  });
  return out;
}

// Smaller goes first.
std::vector<RequestQueue::Rank> RequestQueue::ranks(MonotonicTime now) const {
  const auto warm = affinities(now);
  std::vector<Rank> out;
  out.reserve(waiting_.size());
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Entry& entry = waiting_[i];
    const bool starving = starves(entry, now);
    out.emplace_back(!starving, entry.lane, starving ? entry.since : MonotonicTime(), starving ? 0 : -warm[i],
                     i);
  }
  return out;
}

std::vector<std::uint64_t> RequestQueue::order(MonotonicTime now) const {
  auto ranked = ranks(now);
  std::ranges::sort(ranked);
  std::vector<std::uint64_t> out;
  out.reserve(ranked.size());
  for (const auto& rank : ranked) out.push_back(waiting_[std::get<std::size_t>(rank)].id);
  return out;
}

// --- who may go

int RequestQueue::running_in(Lane lane) const {
  return static_cast<int>(std::ranges::count_if(running_, [lane](const auto& e) {
    return (e.second.lane == Lane::interactive) == (lane == Lane::interactive);
  }));
}

int RequestQueue::cap(Lane lane) const {
  return lane == Lane::interactive ? widths_.interactive : widths_.background;
}

bool RequestQueue::has_capacity(Lane lane, int extra) const {
  const auto ahead = static_cast<int>(
      std::ranges::count_if(waiting_, [lane](const Entry& e) { return !e.ambient && e.lane <= lane; }));
  return static_cast<int>(running_.size()) + ahead + extra <= widths_.concurrency &&
         running_in(lane) + extra <= cap(lane);
}

bool RequestQueue::may_go(const Entry& entry, MonotonicTime now) const {
  if (running_in(entry.lane) >= cap(entry.lane)) return false;
  return !entry.ambient || ambient_gate_open(now);
}

bool RequestQueue::other_work() const {
  return std::ranges::any_of(running_, [](const auto& e) { return !e.second.ambient; }) ||
         std::ranges::any_of(waiting_, [](const Entry& e) { return !e.ambient; });
}

bool RequestQueue::ambient_gate_open(MonotonicTime now) const {
  if (settings_.ambient_quiet <= Millis(0)) return true;
  const int spare = widths_.interactive - 1;
  if (spare > 0 && static_cast<int>(running_.size()) < spare) return true;
  return !other_work() && now - last_other_ >= settings_.ambient_quiet;
}

std::optional<MonotonicTime> RequestQueue::recheck(MonotonicTime now) const {
  const bool ambient = std::ranges::any_of(waiting_, &Entry::ambient);
  // While other work is there its end is the next thing to happen.
  if (!ambient || other_work() || ambient_gate_open(now)) return std::nullopt;
  return last_other_ + settings_.ambient_quiet + kRecheckSlack;
}

}  // namespace gezel::engine
