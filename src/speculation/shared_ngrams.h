// speculation/shared_ngrams.h
//
// What followed which tokens in any run of the model: boilerplate that many answers share is drafted although
// this conversation has not seen it (spec 40 section 11.14, source 2). A table of fixed size that forgets
// everything when it gets crowded; what it proposes is only a guess that the model checks. Pure, one per
// loaded model. Runs of different domains (tenants, adapters) never see each other's tokens: give each its
// own seed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gezel::speculation {

using Token = std::int32_t;

class SharedNgrams {
 public:
  static constexpr std::size_t kOrder = 8;          // tokens that must agree
  static constexpr std::size_t kSlots = 1U << 18U;  // 2 MiB

  // Learns what stands at [from, tokens.size()); tokens before it are the context of the first ones.
  void learn(std::uint64_t seed, std::span<const Token> tokens, std::size_t from);
  // What followed before, token by token, until something unknown or `limit`.
  std::vector<Token> propose(std::uint64_t seed, std::span<const Token> tokens, std::size_t limit) const;

 private:
  struct Slot {
    std::uint32_t check = 0;  // other bits of the hash; 0: empty
    Token token = 0;
  };
  std::vector<Slot> slots_;  // made with the first token learned
  std::size_t used_ = 0;
};

}  // namespace gezel::speculation
