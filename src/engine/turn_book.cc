#include "engine/turn_book.h"

#include <algorithm>

namespace gezel::engine {

HitSource hit_source(const Usage& usage) {
  if (usage.cached_tokens <= 0) return HitSource::fresh;
  const auto& from = usage.cached_from;
  const auto memory = from.slot + from.host;
  if (from.disk > memory && from.disk >= from.coalesced) return HitSource::disk;
  return from.coalesced > memory ? HitSource::prefix : HitSource::memory;
}

void TurnBook::record(const std::string& session, const Usage& usage, Bytes bytes_per_token, WallTime now) {
  const HitSource source = hit_source(usage);
  const bool hit = source != HitSource::fresh;
  ++(hit ? counts_.hits : counts_.misses);
  switch (source) {
    case HitSource::memory:
      ++counts_.memory;
      break;
    case HitSource::disk:
      ++counts_.disk;
      break;
    case HitSource::prefix:
      ++counts_.prefix;
      break;
    case HitSource::fresh:
      ++counts_.fresh;
      break;
  }
  counts_.prompt_tokens += static_cast<std::uint64_t>(std::max<std::int64_t>(0, usage.prompt_tokens));
  counts_.cached_tokens += static_cast<std::uint64_t>(std::max<std::int64_t>(0, usage.cached_tokens));
  window_.push_back(hit);
  if (window_.size() > kTurnWindow) window_.pop_front();
  if (session.empty()) return;
  const auto tokens = std::max<std::int64_t>(0, usage.prompt_tokens + usage.completion_tokens);
  sessions_[session] = {session, tokens, static_cast<Bytes>(tokens) * bytes_per_token, now};
  if (sessions_.size() > kMostWarmSessions)
    sessions_.erase(
        std::ranges::min_element(sessions_, {}, [](const auto& entry) { return entry.second.last_used; }));
}

TurnFigures TurnBook::figures() const {
  TurnFigures out = counts_;
  if (!window_.empty())
    out.recent_hit_rate =
        static_cast<double>(std::ranges::count(window_, true)) / static_cast<double>(window_.size());
  for (const auto& [name, session] : sessions_) out.sessions.push_back(session);
  std::ranges::stable_sort(out.sessions, std::ranges::greater(), &WarmSession::last_used);
  return out;
}

}  // namespace gezel::engine
