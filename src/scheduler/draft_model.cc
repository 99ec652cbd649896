#include "scheduler/draft_model.h"

#include <algorithm>

#include "base/log.h"
#include "kvcache/slot_choice.h"

namespace gezel::scheduler {
namespace {

constexpr double kWeight = 0.2;  // of the newest measurement

void average(double& value, double newest) {
  value = value == 0 ? newest : value + kWeight * (newest - value);
}

double milliseconds(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

DraftModel::DraftModel(Options options, Decoder& decoder, const Clock& clock)
    : options_(std::move(options)),
      decoder_(decoder),
      clock_(clock),
      slots_(static_cast<std::size_t>(options_.slots)) {}

void DraftModel::forget(int slot) {
  decoder_.remove(slot, -1, -1);
  slots_[static_cast<std::size_t>(slot)] = {};
}

bool DraftModel::follow(int slot, RunId run, std::span<const Token> tokens) {
  if (!works_ || tokens.empty() || static_cast<std::int64_t>(tokens.size()) > options_.context_per_slot)
    return false;
  Slot& state = slots_[static_cast<std::size_t>(slot)];
  if (state.run != run) state = {.run = run, .held = std::move(state.held), .agreed = 0};
  const std::size_t both = std::min(state.held.size(), tokens.size() - 1);
  while (state.agreed < both && state.held[state.agreed] == tokens[state.agreed]) ++state.agreed;
  state.agreed = std::min(state.agreed, both);
  if (state.agreed == state.held.size()) return true;
  const auto keep = static_cast<std::uint32_t>(state.agreed);
  const bool cut = keep > 0 &&
                   kvcache::window_allows(keep, static_cast<std::uint32_t>(options_.sliding_window),
                                          decoder_.position_min(slot)) &&
                   decoder_.remove(slot, static_cast<std::int32_t>(keep), -1);
  if (cut) {
    state.held.resize(keep);
  } else {
    decoder_.remove(slot, -1, -1);
    state.held.clear();
    state.agreed = 0;
  }
  return true;
}

bool DraftModel::feed(int slot, std::span<const Token> tokens) {
  Slot& state = slots_[static_cast<std::size_t>(slot)];
  // A token that only the other model has: there is no guess about what follows it.
  if (std::ranges::any_of(tokens, [&](Token token) { return token < 0 || token >= options_.vocabulary; }))
    return false;
  rows_.clear();
  for (const Token token : tokens) {
    rows_.push_back({token, static_cast<std::int32_t>(state.held.size() + rows_.size()), slot, false});
  }
  rows_.back().logits = true;
  if (const auto code = decoder_.decode(rows_); code != llama::DecodeCode::ok) {
    log_warn("the draft model failed; answers come without it",
             {{"code", std::to_string(static_cast<int>(code))}});
    works_ = false;
    return false;
  }
  state.held.insert(state.held.end(), tokens.begin(), tokens.end());
  return true;
}

Token DraftModel::likeliest(int row) const {
  const auto logits = decoder_.logits(row);
  const auto known = logits.first(std::min(logits.size(), static_cast<std::size_t>(options_.vocabulary)));
  return known.empty() ? -1 : static_cast<Token>(std::ranges::max_element(known) - known.begin());
}

std::int64_t DraftModel::behind(int slot, RunId run, std::span<const Token> tokens) {
  if (!follow(slot, run, tokens)) return options_.context_per_slot + 1;
  return static_cast<std::int64_t>(tokens.size() - slots_[static_cast<std::size_t>(slot)].held.size());
}

void DraftModel::catch_up(int slot, RunId run, std::span<const Token> tokens, std::int64_t limit) {
  // The last token is fed with the guess.
  const std::int64_t missing = behind(slot, run, tokens) - 1;
  const std::int64_t count = std::min({missing, limit, options_.batch_tokens});
  if (count <= 0 || missing >= options_.context_per_slot) return;
  const auto at = slots_[static_cast<std::size_t>(slot)].held.size();
  const MonotonicTime began = clock_.now();
  if (feed(slot, tokens.subspan(at, static_cast<std::size_t>(count))))
    average(follow_ms_, milliseconds(began, clock_.now()) / static_cast<double>(count));
}

std::vector<Token> DraftModel::guess(int slot, RunId run, std::span<const Token> tokens, std::size_t depth) {
  std::vector<Token> out;
  if (depth == 0 || behind(slot, run, tokens) > kNearlyThere) return out;
  const MonotonicTime began = clock_.now();
  const auto at = slots_[static_cast<std::size_t>(slot)].held.size();
  std::span<const Token> next = tokens.subspan(at);
  const auto room = static_cast<std::size_t>(options_.context_per_slot) - tokens.size() + 1;
  depth = std::min(depth, room);
  while (out.size() < depth && feed(slot, next)) {
    const Token token = likeliest(static_cast<int>(rows_.size()) - 1);
    if (token < 0 || options_.is_end(token)) break;
    out.push_back(token);
    next = std::span(out).last(1);
  }
  if (!out.empty()) average(guess_ms_, milliseconds(began, clock_.now()) / static_cast<double>(out.size()));
  return out;
}

}  // namespace gezel::scheduler
