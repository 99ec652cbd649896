#include "sampling/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gezel::sampling {
namespace {

constexpr std::size_t kMaxBreakerBytes = 40;  // as llama.cpp's server; longer ones are cut

constexpr double kLargest = std::numeric_limits<float>::max();

// match[k] = how many tokens in front of (and including) the k-th from the end equal the last ones: the Z
// function of the reversed window. Linear: `right` only grows, and tokens left of it are known from an
// earlier position.
void match_with_end(std::span<const std::int32_t> tokens, std::vector<int>& match) {
  const int size = static_cast<int>(tokens.size());
  const auto from_end = [&](int k) { return tokens[static_cast<std::size_t>(size - 1 - k)]; };
  match.assign(tokens.size(), 0);
  int left = 0, right = 0;  // [left, right) is the match that reaches furthest
  for (int k = 1; k < size; ++k) {
    int length = k < right ? std::min(right - k, match[static_cast<std::size_t>(k - left)]) : 0;
    while (k + length < size && from_end(k + length) == from_end(length)) ++length;
    match[static_cast<std::size_t>(k)] = length;
    if (k + length > right) left = k, right = k + length;
  }
}

}  // namespace

Dry::Dry(DryParams params, std::function<std::string(std::int32_t)> piece)
    : params_(std::move(params)), piece_(std::move(piece)), window_(window_tokens(params_.penalty_last_n)) {
  for (const std::string& text : params_.sequence_breakers) {
    if (text.empty()) continue;
    Breaker breaker{text.substr(0, kMaxBreakerBytes), {}, 0};
    breaker.fallback.assign(breaker.text.size(), 0);
    for (std::size_t i = 1, length = 0; i < breaker.text.size(); ++i) {
      while (length > 0 && breaker.text[i] != breaker.text[length]) length = breaker.fallback[length - 1];
      if (breaker.text[i] == breaker.text[length]) ++length;
      breaker.fallback[i] = static_cast<std::uint8_t>(length);
    }
    breakers_.push_back(std::move(breaker));
  }
}

// Whether the breaker was completed somewhere in `bytes`.
bool Dry::advance(Breaker& breaker, const std::string& bytes) {
  bool completed = false;
  for (const char c : bytes) {
    while (breaker.matched > 0 && c != breaker.text[breaker.matched])
      breaker.matched = breaker.fallback[breaker.matched - 1u];
    if (c == breaker.text[breaker.matched]) ++breaker.matched;
    if (breaker.matched == breaker.text.size()) {
      completed = true;
      breaker.matched = breaker.fallback[breaker.matched - 1u];
    }
  }
  return completed;
}

const Dry::Piece& Dry::piece_of(std::int32_t token) {
  const auto [it, inserted] = pieces_.try_emplace(token);
  if (inserted) {
    it->second.bytes = piece_ ? piece_(token) : std::string();
    for (const Breaker& breaker : breakers_) {
      it->second.holds_breaker |= it->second.bytes.find(breaker.text) != std::string::npos;
    }
  }
  return it->second;
}

void Dry::accept(std::int32_t token) {
  window_.push(token);
  if (breakers_.empty()) return;
  const Piece& piece = piece_of(token);
  bool completed = false;
  for (Breaker& breaker : breakers_) completed |= advance(breaker, piece.bytes);
  since_breaker_ = completed ? 0 : std::min(since_breaker_ + 1, kMaxWindowTokens);
}

std::span<const std::pair<std::int32_t, float>> Dry::penalties() {
  penalties_.clear();
  const auto tokens = window_.tokens();
  const int allowed = std::max(params_.allowed_length, 0);
  const int reach = static_cast<int>(std::min(since_breaker_, tokens.size()));
  if (static_cast<int>(tokens.size()) <= allowed || reach < allowed) return penalties_;

  match_with_end(tokens, match_);
  longest_match_.clear();
  for (std::size_t k = 1; k < tokens.size(); ++k) {
    const int length = std::min(match_[k], reach);
    if (length < allowed) continue;
    const std::int32_t next = tokens[tokens.size() - k];  // what followed this occurrence
    int& longest = longest_match_[next];
    longest = std::max(longest, length);
  }
  for (const auto& [token, length] : longest_match_) {
    if (const auto piece = pieces_.find(token); piece != pieces_.end() && piece->second.holds_breaker)
      continue;
    const double penalty = params_.multiplier * std::pow(static_cast<double>(params_.base), length - allowed);
    penalties_.emplace_back(token, static_cast<float>(std::clamp(penalty, -kLargest, kLargest)));
  }
  return penalties_;
}

}  // namespace gezel::sampling
