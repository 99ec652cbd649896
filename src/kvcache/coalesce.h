// kvcache/coalesce.h
//
// Prompts in flight: a head that several requests bring at the same moment is computed once (spec 40 section
// 11.6, coalescing). A run that computes its prompt leads; a request with enough in common beyond what the
// tree already has waits until the leader has committed and exported that point, and resumes there.
//
// There are no deadlocks: leaders never wait, and who waits holds nothing.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "kvcache/keys.h"

namespace gezel::kvcache {

using RunNumber = std::uint64_t;

inline constexpr std::uint32_t kWorthWaitingTokens = 128;

class Coalescer {
 public:
  // The run computes this prompt from `fed` on; it will commit at `boundaries` (ascending token counts).
  // `predicted`: how long its prompt will take.
  void lead(RunNumber run, const Digest& domain, std::vector<Key> prompt,
            std::vector<std::uint32_t> boundaries, std::uint32_t fed, Millis predicted, MonotonicTime now);
  // How long the rest of its prompt will take, now that more is known.
  void predict(RunNumber run, Millis predicted, MonotonicTime now);
  // Where the run's next chunk must end at the latest, so that a boundary is met; unset: none is left.
  std::optional<std::uint32_t> next_boundary(RunNumber run) const;
  std::optional<std::uint32_t> boundary_after(RunNumber run, std::uint32_t tokens) const;
  // The next boundary for which somebody waits.
  std::optional<std::uint32_t> next_wanted(RunNumber run) const;
  // Somebody waits for what the run commits there: export it then.
  bool wanted(RunNumber run, std::uint32_t boundary) const;

  struct Wait {
    RunNumber leader = 0;
    std::uint32_t tokens = 0;  // the boundary it waits for
    MonotonicTime deadline{};  // twice the leader's predicted time: then it leads itself
  };
  // Should this request wait? `matched`: what the tree (or a slot) gives it now. Registers it. A leader gets
  // a boundary where the two prompts part, unless it has one less than 128 tokens before.
  std::optional<Wait> wait(RunNumber run, const Digest& domain, std::span<const Key> prompt,
                           std::uint32_t matched, MonotonicTime now);

  // The leader has fed (committed, exported) `fed` tokens. Returns who may resume now, in order of arrival.
  std::vector<RunNumber> advanced(RunNumber leader, std::uint32_t fed);
  // The leader's prompt is done or it failed. Returns all who still waited for it, in order of arrival: they
  // ask again (the first will lead).
  std::vector<RunNumber> ended(RunNumber leader);
  // Who has waited too long; they are not registered any more.
  std::vector<RunNumber> expired(MonotonicTime now);
  // A waiting request was cancelled or granted otherwise.
  void forget(RunNumber run);

  const Wait* waiting(RunNumber run) const;
  // Who waits for this leader.
  std::vector<RunNumber> waiting_for(RunNumber leader) const;
  std::size_t leaders() const { return leaders_.size(); }
  std::size_t waiters() const { return waiters_.size(); }

 private:
  struct Leader {
    Digest domain{};
    std::vector<Key> prompt;
    std::vector<std::uint32_t> boundaries;
    std::uint32_t fed = 0;
    MonotonicTime deadline{};
  };
  struct Waiter {
    Wait wait;
    std::uint64_t order = 0;
  };
  std::vector<RunNumber> take(auto&& chosen);

  std::map<RunNumber, Leader> leaders_;
  std::map<RunNumber, Waiter> waiters_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace gezel::kvcache
