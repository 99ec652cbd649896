// engine/cache.h
//
// What an engine says of the prompts it has computed, and what may be asked of that (spec 40 section 11.15a).
// Tokens where nothing else is said.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "prompt/request.h"

namespace gezel::engine {

// From where the cached tokens of a prompt came; their sum is `cached_tokens`. All 0: the engine does not
// say.
struct CachedTokens {
  std::int64_t slot = 0, host = 0, disk = 0;
  std::int64_t coalesced = 0;  // another request computed them while this one waited for it
};

// Where a prompt left the closest sequence that was computed before: date stamps and reordered tools show
// here.
struct PrefixBreak {
  std::int64_t matched = 0;                // both begin with so many
  std::int64_t previous = 0;               // of the earlier sequence
  std::optional<std::int64_t> at_message;  // the message in which they part; unset: in none
  // Where text was asked for: the end of what both have, and how each goes on. At most 48 bytes each.
  std::string before, now, then;
};

struct CacheQuery {
  enum class Op {
    list,     // its nodes, parents first
    inspect,  // one node, with its text
    explain,  // where `request` would leave what is cached
    warm,     // computes the prompt of `request` in its lane and keeps it; answered when that is done
    pin,
    unpin,
    drop,   // from every tier
    flush,  // writes what is not on disk yet
  };
  Op op = Op::list;
  std::uint64_t node = 0;  // inspect; pin, unpin, drop: this node, or with 0 all that `session` uses
  std::string session;
  std::optional<prompt::GenerateRequest> request;
};
inline constexpr std::array<std::string_view, 8> kCacheOps = {"list", "inspect", "explain", "warm",
                                                              "pin",  "unpin",   "drop",    "flush"};
constexpr std::string_view cache_op_name(CacheQuery::Op op) {
  return kCacheOps[static_cast<std::size_t>(op)];
}

struct CacheNode {
  std::uint64_t id = 0, parent = 0;  // parent 0: none
  std::int64_t start = 0, end = 0;   // its tokens of the whole sequence
  std::string kind;                  // system | user | tail
  std::uint64_t hits = 0, pins = 0;
  Bytes host_bytes = 0, disk_bytes = 0;
  std::optional<int> slot;  // that holds it
  WallTime last_use{};
};

struct CacheReply {
  std::vector<CacheNode> nodes;    // list, inspect
  std::int64_t tokens = 0;         // explain: it would reuse; warm: of the prompt
  std::int64_t cached_tokens = 0;  // warm: of those, not computed
  // pin, unpin, drop: nodes; flush: records written; list: all nodes; explain: tokens of the prompt
  std::int64_t count = 0;
  std::string text;                         // inspect
  std::optional<PrefixBreak> prefix_break;  // explain
};

// What answers found of their prompts, since the process began (engine/turn_book.h).
struct WarmSession {
  std::string session;
  std::int64_t tokens = 0;  // of its last prompt and answer
  Bytes bytes = 0;
  WallTime last_used{};
};

struct TurnFigures {
  std::uint64_t hits = 0, misses = 0;
  double recent_hit_rate = 0;  // of the last 50 turns; 0 without any
  std::uint64_t memory = 0, disk = 0, prefix = 0, fresh = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0;
  std::vector<WarmSession> sessions;  // the last used first
};

// What there is of prompts now, and what came of it.
struct CacheUse {
  TurnFigures turns;
  Bytes bytes = 0, budget = 0;  // in memory beside the slots, and on disk; what memory may hold
};

}  // namespace gezel::engine
