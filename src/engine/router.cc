#include "engine/router.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace gezel::engine {

void Router::forget(MonotonicTime now) {
  std::erase_if(sessions_, [&](const auto& entry) { return now - entry.second.used >= kSessionTime; });
}

void Router::remember(const std::string& session, int replica, MonotonicTime now) {
  if (!sessions_.contains(session) && sessions_.size() >= kMostSessions) {
    sessions_.erase(std::ranges::min_element(
        sessions_, {}, [](const auto& entry) { return std::tuple(entry.second.used, entry.first); }));
  }
  sessions_[session] = {replica, now};
}

std::optional<int> Router::home(const std::string& session, MonotonicTime now) {
  forget(now);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? std::nullopt : std::optional(found->second.replica);
}

int Router::sessions(int replica, MonotonicTime now) {
  forget(now);
  return static_cast<int>(
      std::ranges::count_if(sessions_, [&](const auto& entry) { return entry.second.replica == replica; }));
}

Router::Route Router::bind(const std::string& session, std::span<const Replica> replicas, MonotonicTime now) {
  forget(now);
  const int count = static_cast<int>(replicas.size());
  const auto at = [&](int i) -> const Replica& { return replicas[static_cast<std::size_t>(i)]; };
  const auto takes_work = [&](int i) { return at(i).ready && !at(i).draining; };

  std::optional<int> prior;
  if (const auto found = sessions_.find(session); found != sessions_.end() && found->second.replica < count)
    prior = found->second.replica;
  if (prior && takes_work(*prior)) {
    remember(session, *prior, now);
    return {*prior, {}};
  }

  std::vector<int> bound(replicas.size());
  for (const auto& [name, binding] : sessions_) {
    // Its own conversation is about to leave.
    if (binding.replica < count && name != session) ++bound[static_cast<std::size_t>(binding.replica)];
  }
  // Less is better. What belongs to no conversation weighs only as long as it runs.
  const auto load = [&](int i) {
    const int sessions = bound[static_cast<std::size_t>(i)];
    return session.empty() ? std::pair(at(i).requests, sessions) : std::pair(sessions, at(i).requests);
  };
  std::optional<int> best, unloaded;
  for (int i = 0; i < count; ++i) {
    auto& candidate = takes_work(i) ? best : unloaded;
    if (at(i).ready && at(i).draining) continue;
    if (!candidate || load(i) < load(*candidate)) candidate = i;
  }
  Route route;
  if (best) {
    route.replica = *best;
    const auto better = [&] {
      return session.empty() ? at(*unloaded).requests < at(*best).requests : load(*unloaded) < load(*best);
    };
    if (unloaded && better()) route.missed = unloaded;
  } else {
    route.replica = prior.value_or(0);
  }
  if (!session.empty()) remember(session, route.replica, now);
  return route;
}

}  // namespace gezel::engine
