// engine/turn_book.h
//
// What an engine's answers found of their prompts: hits, where they came from, and which conversations are
// warm (spec 40 sections 2.4 and 2.5). Bounded; knows nothing of how prompts are kept.
#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "engine/engine.h"

namespace gezel::engine {

enum class HitSource { memory, disk, prefix, fresh };

// From where most of the cached tokens came; `prefix`: another request computed them at the same moment.
// `fresh` is no hit: nothing was reused.
HitSource hit_source(const Usage& usage);

inline constexpr std::size_t kTurnWindow = 50;
inline constexpr std::size_t kMostWarmSessions = 1'000;

class TurnBook {
 public:
  // One finished answer. `session` may be "". `bytes_per_token`: of the KV cache.
  void record(const std::string& session, const Usage& usage, Bytes bytes_per_token, WallTime now);
  // A session that was dropped.
  void forget(const std::string& session) { sessions_.erase(session); }
  // Another process: nothing it had counts.
  void clear() { *this = {}; }
  TurnFigures figures() const;

 private:
  std::map<std::string, WarmSession, std::less<>> sessions_;
  std::deque<bool> window_;
  TurnFigures counts_;
};

}  // namespace gezel::engine
