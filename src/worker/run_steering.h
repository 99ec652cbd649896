// worker/run_steering.h
//
// What steers one run: a constraint on its content that begins when reasoning ends, or one on its tool calls that
// sleeps until one begins; a thinking budget that closes reasoning by force; a guard against endless repetition of free text. Spec 50 sections 8.3, 9.2 and
// 10.3, spec 40 section 11.13.0.
//
// The matcher of a constraint belongs to the decode thread, except between prepare() and the next call, when
// the mask thread computes with it.
#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "base/utf8.h"
#include "grammar/lazy.h"
#include "grammar/matcher.h"
#include "scheduler/steering.h"
#include "turn/guards.h"
#include "turn/splitter.h"
#include "worker/mask_thread.h"

namespace gezel::worker {

using scheduler::Token;

struct SteeringPlan {
  std::function<std::string_view(Token)> bytes;  // of a token, as they appear in the output
  // Of the constraint or the calls below; null with neither.
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
  // What the content must match; none: it is free.
  std::optional<grammar::Matcher> constraint;
  // What its calls must match; not together with a constraint.
  std::optional<grammar::LazyMatcher> calls;
  // Tokens that a constraint forces are taken without sampling. Off where every token's probability is asked for.
  bool take_forced = true;
  // The model's markers of reasoning; none: it does not reason.
  std::optional<turn::SplitterOptions> markers;
  bool reasoning_open = false;
  std::optional<std::int64_t> thinking_budget;  // tokens of one block
  std::vector<Token> closer;                    // what ends a block; empty: the budget is ignored
  bool guard_repetition = true;                 // of free content
};

class RunSteering final : public scheduler::Steering {
 public:
  // `masks` must outlive this.
  RunSteering(SteeringPlan plan, MaskThread& masks);
  ~RunSteering() override;

  void prepare() override;
  Result<std::span<const std::uint32_t>> mask() override;
  Result<bool> accept(Token token) override;
  std::vector<Token> forced() override;
  bool complete() const override;
  scheduler::SteeringReport report() const override { return report_; }

 private:
  bool constrained() const { return plan_.constraint.has_value() && !inside(); }
  bool in_call() const { return plan_.calls && plan_.calls->state() != grammar::LazyMatcher::State::asleep; }
  bool inside() const { return tracker_ && tracker_->inside(); }
  Result<> settle();
  std::size_t mask_words() const;
  Result<> compute_mask();
  Result<bool> accept_reasoning(Token token, std::string_view bytes);
  Result<bool> accept_free(Token token, std::string_view bytes);
  void count_reasoning(std::string_view bytes, bool was_inside);
  std::vector<Token> close_reasoning();

  SteeringPlan plan_;
  MaskThread& masks_;
  std::optional<turn::ReasoningTracker> tracker_;  // none: not reasoning, and no marker counts any more
  std::vector<std::uint32_t> mask_;
  std::optional<std::future<Result<>>> computing_;  // the mask
  bool mask_known_ = false;
  std::vector<Token> refused_;  // at this place, while reasoning
  std::int64_t block_tokens_ = 0;
  Utf8Assembler characters_;  // of reasoning: a block is not closed within one
  turn::CycleDetector cycle_;
  scheduler::SteeringReport report_;
};

}  // namespace gezel::worker
