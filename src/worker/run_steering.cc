#include "worker/run_steering.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gezel::worker {
namespace {

void clear_bit(std::vector<std::uint32_t>& mask, Token token) {
  mask[static_cast<std::size_t>(token) / 32] &= ~(1U << (token % 32));
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

RunSteering::RunSteering(SteeringPlan plan, MaskThread& masks) : plan_(std::move(plan)), masks_(masks) {
  if (plan_.markers) {
    tracker_.emplace(*plan_.markers, plan_.reasoning_open ? turn::StartState::open : turn::StartState::closed);
    // A constraint that begins now leaves no room for reasoning, and its text may well talk about markers.
    if (plan_.constraint && !tracker_->inside()) tracker_.reset();
  }
}

RunSteering::~RunSteering() {
  if (computing_) computing_->wait();
  if (plan_.calls && !plan_.calls->failure().empty())
    log_warn("a tool grammar was given up in the middle of an answer", {{"reason", plan_.calls->failure()}});
}

std::size_t RunSteering::mask_words() const {
  return plan_.vocabulary->mask_words();
}

Result<> RunSteering::compute_mask() {
  mask_.resize(mask_words());
  return plan_.calls ? plan_.calls->compute_mask(mask_) : plan_.constraint->compute_mask(mask_);
}

void RunSteering::prepare() {
  const bool needed = in_call() || (constrained() && !plan_.constraint->stopped());
  if (!needed || computing_ || mask_known_) return;
  computing_ = masks_.post([this] { return compute_mask(); });
}

// The matcher is ours again.
Result<> RunSteering::settle() {
  if (!computing_) return {};
  Result<> outcome = computing_->get();
  computing_.reset();
  mask_known_ = outcome.has_value();
  return outcome;
}

Result<std::span<const std::uint32_t>> RunSteering::mask() {
  GEZEL_CHECK(settle());
  if (constrained() || in_call()) {
    if (!mask_known_) GEZEL_CHECK(compute_mask());
    mask_known_ = true;
  } else if (refused_.empty()) {
    return std::span<const std::uint32_t>{};
  } else {
    mask_.assign(mask_words(), ~0U);
    for (const Token token : refused_) clear_bit(mask_, token);
  }
  return std::span<const std::uint32_t>(mask_);
}

Result<bool> RunSteering::accept(Token token) {
  GEZEL_CHECK(settle());
  const std::string_view bytes = plan_.bytes(token);
  if (constrained()) {
    mask_known_ = false;
    GEZEL_CHECK(plan_.constraint->consume(token));
    return true;
  }
  GEZEL_TRY(const bool accepted, plan_.constraint ? accept_reasoning(token, bytes) : accept_free(token, bytes));
  if (accepted) {
    refused_.clear();
  } else {
    refused_.push_back(token);
  }
  return accepted;
}

void RunSteering::count_reasoning(std::string_view bytes, bool was_inside) {
  if (was_inside) {
    ++report_.reasoning_tokens;
    ++block_tokens_;
    characters_.feed(bytes);
  }
  if (inside()) return;
  block_tokens_ = 0;
  characters_ = {};
}

// A token may end the block and go on: what it holds of the content must satisfy the constraint, like everything
// after it. White space there is no content.
Result<bool> RunSteering::accept_reasoning(Token token, std::string_view bytes) {
  (void)token;
  turn::ReasoningTracker after = *tracker_;
  const auto boundaries = after.feed(bytes);
  if (!after.inside()) {
    const std::size_t rest = after.offset() - boundaries.back().end;
    std::string_view surplus = bytes.substr(bytes.size() - std::min(rest, bytes.size()));
    const auto text = surplus.find_first_not_of(" \t\r\n");
    surplus = text == std::string_view::npos ? std::string_view{} : surplus.substr(text);
    const auto tokens = plan_.vocabulary->tokenize(surplus);
    // An opener of a call that ends the block is content as well.
    if (boundaries.back().by_call || plan_.constraint->allowed(tokens) < tokens.size()) return false;
    for (const Token part : tokens) GEZEL_CHECK(plan_.constraint->consume(part));
  }
  tracker_ = std::move(after);
  count_reasoning(bytes, true);
  if (!tracker_->inside()) tracker_.reset();
  return true;
}

Result<bool> RunSteering::accept_free(Token token, std::string_view bytes) {
  const bool was_inside = inside();
  std::size_t visible = was_inside ? bytes.size() : 0;
  std::optional<turn::ReasoningTracker> after;
  // The text of a call is data: no marker in it counts.
  if (tracker_ && !in_call()) {
    after = *tracker_;
    const auto boundaries = after->feed(bytes);
    if (after->inside()) {
      visible = bytes.size();
    } else if (was_inside && !boundaries.empty()) {
      const std::size_t from = boundaries.back().by_call ? boundaries.back().begin : boundaries.back().end;
      visible = bytes.size() - std::min(bytes.size(), after->offset() - std::min(after->offset(), from));
    }
  }
  if (plan_.calls) {
    mask_known_ = false;
    GEZEL_TRY(const bool accepted, plan_.calls->accept(token, bytes, visible));
    if (!accepted) return false;
  }
  if (after) tracker_ = std::move(after);
  count_reasoning(bytes, was_inside);
  if (plan_.guard_repetition && !inside() && !in_call())
    report_.repetition = cycle_.feed(static_cast<std::uint32_t>(token), characters(bytes));
  return true;
}

std::vector<Token> RunSteering::forced() {
  if (!settle()) return {};  // mask() will report it
  if (in_call() && plan_.take_forced) {
    std::vector<Token> tokens = plan_.calls->forced();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto accepted = plan_.calls->accept(tokens[i], plan_.bytes(tokens[i]));
      if (accepted && *accepted) continue;
      tokens.resize(i);
      break;
    }
    report_.forced_tokens += static_cast<std::int64_t>(tokens.size());
    if (!tokens.empty()) mask_known_ = false;
    return tokens;
  }
  if (inside()) return close_reasoning();
  if (!constrained() || !plan_.take_forced) return {};
  std::vector<Token> tokens = plan_.constraint->forced();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (plan_.constraint->consume(tokens[i])) continue;
    tokens.resize(i);
    break;
  }
  if (!tokens.empty()) mask_known_ = false;
  report_.forced_tokens += static_cast<std::int64_t>(tokens.size());
  return tokens;
}

// Waits for the end of a character and of a closer that has begun.
std::vector<Token> RunSteering::close_reasoning() {
  if (!plan_.thinking_budget || block_tokens_ < *plan_.thinking_budget || plan_.closer.empty()) return {};
  if (characters_.held() > 0 || tracker_->pending() > 0) return {};
  for (const Token token : plan_.closer) tracker_->feed(plan_.bytes(token));
  block_tokens_ = 0;
  report_.forced_tokens += static_cast<std::int64_t>(plan_.closer.size());
  report_.reasoning_tokens += static_cast<std::int64_t>(plan_.closer.size());
  if (plan_.constraint && !tracker_->inside()) tracker_.reset();
  return plan_.closer;
}

bool RunSteering::complete() const {
  if (report_.repetition) return true;
  if (computing_) return false;
  if (plan_.calls) return plan_.calls->state() == grammar::LazyMatcher::State::finished;
  return constrained() && plan_.constraint->stopped();
}

}  // namespace gezel::worker
