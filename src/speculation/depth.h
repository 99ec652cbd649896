// speculation/depth.h
//
// How many drafted tokens are worth checking (spec 40 section 11.14.4). With a share `a` of drafted tokens
// accepted, a call with k of them yields E(k) = (1 - a^(k+1)) / (1 - a) tokens and costs t(k+1) / t(1) calls:
// the depth with the best quotient is taken, and none while no depth pays. Pure, one per run and source.
#pragma once
#include <cstddef>

#include "speculation/step_ratio.h"

namespace gezel::speculation {

// What a draft costs beside its rows in the call that checks them, in units of a call with one row.
struct DraftCosts {
  double per_token = 0;  // to guess one token
  // Memory that cannot be cut: of a draft that failed, what agreed is computed once more with the next call.
  bool replays = false;
};

class Depth {
 public:
  // The depth for the next call, at most `most`; 0: do not draft. `others`: runs that decode in the same
  // call; they wait for the draft as well and gain nothing by it.
  std::size_t choose(std::size_t most, int others, const StepRatio& ratio, const DraftCosts& costs = {});
  // A call with `drafted` (> 0) tokens accepted so many of them. `ratio`: what it took in units of a call
  // without a draft.
  void observe(std::size_t drafted, std::size_t accepted, double ratio);
  // The run went on by so many tokens without a draft.
  void passed(std::size_t tokens);

  double acceptance() const { return acceptance_; }
  bool off() const { return rest_ > 0; }

 private:
  double acceptance_ = 0.7;  // before the first draft
  std::size_t last_ = 0;     // depth
  int losses_ = 0;           // calls in a row that were slower than without a draft
  std::size_t rest_ = 0;     // tokens until the next probe
  bool probing_ = false;
};

}  // namespace gezel::speculation
