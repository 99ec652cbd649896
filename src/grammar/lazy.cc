#include "grammar/lazy.h"

#include <algorithm>

namespace gezel::grammar {

namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

LazyMatcher::LazyMatcher(Matcher fresh, std::vector<Trigger> triggers, const LazyOptions& options)
    : fresh_(std::move(fresh)), triggers_(std::move(triggers)), options_(options) {
  for (const auto& trigger : triggers_) longest_ = std::max(longest_, trigger.text.size());
}

Result<> LazyMatcher::compute_mask(std::span<std::uint32_t> mask) {
  if (state_ == State::awake) {
    const auto computed = matcher_->compute_mask(mask);
    if (computed) return {};
    give_up(computed.error().message);
  }
  const auto& vocabulary = fresh_.vocabulary();
  std::ranges::fill(mask, state_ == State::finished ? 0U : 0xffffffffU);
  const auto set = [&](Token token, bool allowed) {
    const auto bit = 1U << (static_cast<unsigned>(token) % 32);
    auto& word = mask[static_cast<std::size_t>(token) / 32];
    word = allowed ? word | bit : word & ~bit;
  };
  if (state_ != State::finished) {
    for (auto token = vocabulary.size(); token < static_cast<int>(mask.size() * 32); ++token)
      set(token, false);
    for (const Token token : refused_) set(token, false);
  } else {
    for (const Token token : vocabulary.end_of_generation()) set(token, true);
  }
  return {};
}

std::vector<Token> LazyMatcher::forced() {
  return state_ == State::awake ? matcher_->forced() : std::vector<Token>();
}

// If the recent text ends in or just behind a trigger: the tokens, or parts of tokens, from where the trigger
// begins.
std::optional<std::vector<Token>> LazyMatcher::woken() const {
  std::string text;
  for (const auto& seen : recent_) text += seen.text;
  const auto last = recent_.back().text.size();
  // A trigger that ended before the last token was seen then.
  const std::size_t new_from = text.size() - last;
  for (const auto& trigger : triggers_) {
    const auto from = new_from >= trigger.text.size() ? new_from - trigger.text.size() + 1 : 0;
    const auto at = text.find(trigger.text, from);
    if (at == std::string::npos || at + trigger.text.size() <= new_from) continue;
    // A control token is recognised by its id, not by the characters of its name.
    std::size_t begin = 0;
    auto seen = recent_.begin();
    for (; begin + seen->text.size() <= at; ++seen) begin += seen->text.size();
    if (trigger.token && seen->token != *trigger.token) continue;
    if (trigger.at_start && (started_ || !is_blank(std::string_view(text).substr(0, at)))) continue;
    std::vector<Token> tokens;
    if (begin == at && seen->whole) {
      tokens.push_back(seen->token);
    } else {
      tokens = fresh_.vocabulary().tokenize(std::string_view(seen->text).substr(at - begin));
    }
    for (++seen; seen != recent_.end(); ++seen) tokens.push_back(seen->token);
    return tokens;
  }
  return std::nullopt;
}

void LazyMatcher::give_up(std::string why) {
  state_ = State::failed;
  failure_ = std::move(why);
  recent_.clear();
}

void LazyMatcher::trim() {
  std::size_t size = 0;
  for (const auto& seen : recent_) size += seen.text.size();
  while (!recent_.empty() && size - recent_.front().text.size() >= longest_) {
    started_ = started_ || !is_blank(recent_.front().text);
    size -= recent_.front().text.size();
    recent_.pop_front();
  }
}

Result<bool> LazyMatcher::accept(Token token, std::string_view text, std::size_t visible) {
  Undo undo{state_, recent_, started_, 0, matcher_};
  if (state_ == State::finished) {
    if (!fresh_.vocabulary().ends_generation(token)) {
      return fail(ErrorKind::internal, "constraint_failed",
                  "Nothing may follow the call, but something did.");
    }
  } else if (state_ == State::awake) {
    if (const auto consumed = matcher_->consume(token); consumed) {
      undo.consumed = 1;
    } else {
      give_up(consumed.error().message);
    }
  } else if (state_ == State::asleep && !fresh_.vocabulary().ends_generation(token)) {
    visible = options_.triggers_end_reasoning ? 0 : std::min(visible, text.size());
    if (visible > 0) recent_.clear();
    if (visible < text.size()) recent_.push_back({token, std::string(text.substr(visible)), visible == 0});
    if (const auto tokens = visible < text.size() ? woken() : std::nullopt) {
      auto matcher = std::make_shared<Matcher>(fresh_.clone());
      if (matcher->allowed(*tokens) != tokens->size()) {
        recent_ = std::move(undo.recent);
        refused_.push_back(token);
        return false;
      }
      for (const Token one : *tokens) GEZEL_CHECK(matcher->consume(one));
      matcher_ = std::move(matcher);
      state_ = State::awake;
    } else {
      trim();
    }
  }
  refused_.clear();
  undo_.push_back(std::move(undo));
  if (undo_.size() > kMostUndo) undo_.pop_front();
  if (state_ == State::awake && matcher_->stopped()) {
    state_ = options_.parallel ? State::asleep : State::finished;
    matcher_.reset();
    recent_.clear();
    started_ = true;
  }
  return true;
}

Result<> LazyMatcher::rollback(std::size_t count) {
  if (count > undo_.size()) {
    return fail(ErrorKind::internal, "constraint_failed",
                "More tokens are to be taken back than are remembered.");
  }
  refused_.clear();
  for (; count > 0; --count) {
    auto& undo = undo_.back();
    if (undo.consumed > 0) GEZEL_CHECK(undo.matcher->rollback(undo.consumed));
    state_ = undo.state;
    recent_ = std::move(undo.recent);
    started_ = undo.started;
    matcher_ = std::move(undo.matcher);
    undo_.pop_back();
  }
  return {};
}

}  // namespace gezel::grammar
