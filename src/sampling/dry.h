// sampling/dry.h
//
// DRY ("don't repeat yourself") penalises the token that would continue a sequence of tokens seen before: by
// multiplier * base^(length - allowed_length) for the longest such sequence of at least allowed_length
// tokens. A sequence does not reach back over a sequence breaker such as a line end. Definition: p-e-w,
// text-generation-webui pull request 5677, as in llama.cpp's server.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sampling/history.h"

namespace gezel::sampling {

struct DryParams {
  float multiplier = 0;
  float base = 1.75f;
  int allowed_length = 2;
  int penalty_last_n = -1;
  std::vector<std::string> sequence_breakers;
  bool enabled() const { return multiplier != 0 && base >= 1 && penalty_last_n != 0; }
};

class Dry {
 public:
  // `piece` gives the bytes of a token; called once for each different token that is accepted.
  Dry(DryParams params, std::function<std::string(std::int32_t)> piece);

  void accept(std::int32_t token);
  // Token and what to subtract from its logit. Linear in the window. Valid until the next call.
  std::span<const std::pair<std::int32_t, float>> penalties();

 private:
  // Follows one breaker through the text of the tokens (Knuth-Morris-Pratt), so that one that is spread over
  // several tokens is seen however the text was tokenized.
  struct Breaker {
    std::string text;
    std::vector<std::uint8_t> fallback;  // failure function
    std::uint8_t matched = 0;            // bytes of `text` that the tokens so far end with
  };
  struct Piece {
    std::string bytes;
    bool holds_breaker = false;  // whole, so the token itself is never penalised
  };

  const Piece& piece_of(std::int32_t token);
  static bool advance(Breaker& breaker, const std::string& bytes);

  DryParams params_;
  std::function<std::string(std::int32_t)> piece_;
  std::vector<Breaker> breakers_;
  std::unordered_map<std::int32_t, Piece> pieces_;
  TokenWindow window_;
  std::size_t since_breaker_ = kMaxWindowTokens;  // tokens accepted since one completed a breaker

  std::vector<int> match_;                               // scratch of penalties()
  std::unordered_map<std::int32_t, int> longest_match_;  // scratch of penalties()
  std::vector<std::pair<std::int32_t, float>> penalties_;
};

}  // namespace gezel::sampling
