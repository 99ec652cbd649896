// scheduler/steering.h
//
// What steers one run's tokens: a grammar, a thinking budget, a guard against endless repetition. The
// scheduler asks before it samples and tells what was sampled; what the answers rest on is the worker's
// business.
//
// Belongs to one run, so nothing of it can cross to another. Called on the decode thread only.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace gezel::scheduler {

using Token = std::int32_t;

struct SteeringReport {
  std::int64_t reasoning_tokens = 0;
  std::int64_t forced_tokens = 0;  // followed without sampling
  bool repetition = false;         // ended because the same text came again and again
};

class Steering {
 public:
  virtual ~Steering() = default;

  // The run's tokens so far are final: whatever the next mask needs may be computed on another thread while
  // the batch runs.
  virtual void prepare() = 0;
  // The tokens that may come next, bit t % 32 of word t / 32; empty: every token. May wait for what
  // prepare() began. Valid until the next call. Error: the constraint failed, and the run must not go on
  // without it.
  virtual Result<std::span<const std::uint32_t>> mask() = 0;
  // A token was sampled that does not end the generation. False: it is not allowed after all and not
  // accepted; mask() has lost it, sample again.
  virtual Result<bool> accept(Token token) = 0;
  // The tokens that must follow, accepted already; they are final and need no sampling.
  virtual std::vector<Token> forced() = 0;
  // Nothing but the end may follow.
  virtual bool complete() const = 0;

  virtual SteeringReport report() const = 0;
};

}  // namespace gezel::scheduler
