// capacity/context_plan.h
//
// How many slots a model gets and how long each one's context window is, so that the KV cache stays a modest
// part of the memory that is free right now.
//
// Pure policy. The plan begins at kDefaultSlots slots and a window of min(trained, kDefaultWindow) tokens.
// While the cache does not fit kKvShare of the available memory, slots are halved down to one (conversations
// then wait for each other, but each keeps its length), then the window down to kSmallestWindow. What the
// user named is never reduced.
#pragma once
#include <optional>
#include <string>

#include "base/result.h"
#include "capacity/kv_size.h"

namespace gezel::capacity {

inline constexpr int kDefaultSlots = 8;
inline constexpr Tokens kDefaultWindow = 8192;
inline constexpr Tokens kSmallestWindow = 2048;
inline constexpr int kMaxSlots = 64;
inline constexpr Tokens kMaxWindow = Tokens{1} << 27;
// The cache may take this part of the available memory: a fraction, never a floating number.
inline constexpr Bytes kKvShareNumerator = 1, kKvShareDenominator = 4;

struct ContextRequest {
  std::optional<KvGeometry> geometry;  // absent: the worst case is estimated from `weights`
  Bytes weights = 0;
  std::optional<Tokens> trained;  // the model's own window
  Bytes available = 0;            // memory that is free now (system::MemoryFacts::available)
  KvType type = KvType::f16;
  Tokens micro_batch = 512;       // what the engine will be started with
  std::optional<int> slots;       // --slots
  std::optional<Tokens> context;  // --ctx, per slot
};

struct ContextPlan {
  int slots = 0;
  Tokens context_per_slot = 0;
  Bytes kv_bytes = 0;      // of all slots together
  Bytes budget = 0;        // what they may take
  bool reduced = false;    // less than the default because of memory
  bool estimated = false;  // kv_bytes comes from the heuristic
  std::string note;        // one sentence for the log when the user should know; else empty
};

// Errors: `capacity-denied` (kind unavailable) with the bytes that are needed and available and what would
// help; `invalid-request` (kind invalid, param "slots" or "ctx") for a wish outside its range. A wish above
// the trained window is granted as the trained window, and `note` says so.
Result<ContextPlan> plan_context(const ContextRequest& request);

}  // namespace gezel::capacity
