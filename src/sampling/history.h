// sampling/history.h
//
// The tokens so far, as far back as a sampler looks, and how often each occurs in the window of the
// penalties.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace gezel::sampling {

// A request that asks for "the whole context" (-1) gets this many tokens.
inline constexpr std::size_t kMaxWindowTokens = 1 << 20;

// The window that a `last_n` of a request means.
constexpr std::size_t window_tokens(int last_n) {
  return last_n < 0 ? kMaxWindowTokens : std::min(static_cast<std::size_t>(last_n), kMaxWindowTokens);
}

// The last `window` tokens, contiguous.
class TokenWindow {
 public:
  explicit TokenWindow(std::size_t window) : window_(window) {}
  void push(std::int32_t token);
  std::span<const std::int32_t> tokens() const {
    return std::span(tokens_).last(std::min(tokens_.size(), window_));
  }

 private:
  std::size_t window_;
  std::vector<std::int32_t>
      tokens_;  // up to twice the window, so that dropping old ones costs nothing on average
};

// How often each token occurs among the last `window`.
class TokenCounts {
 public:
  explicit TokenCounts(std::size_t window) : window_(window), recent_(window) {}
  void push(std::int32_t token);
  const std::unordered_map<std::int32_t, int>& counts() const { return counts_; }

 private:
  std::size_t window_;
  TokenWindow recent_;
  std::unordered_map<std::int32_t, int> counts_;
};

}  // namespace gezel::sampling
