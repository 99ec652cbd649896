#include "speculation/shared_ngrams.h"

#include <algorithm>

namespace gezel::speculation {
namespace {

std::uint64_t hash_of(std::uint64_t seed, std::span<const Token> context) {
  std::uint64_t hash = seed;
  for (const Token token : context) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

std::uint32_t check_of(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash >> 32) | 1U;
}

}  // namespace

void SharedNgrams::learn(std::uint64_t seed, std::span<const Token> tokens, std::size_t from) {
  if (slots_.empty()) slots_.resize(kSlots);
  for (std::size_t at = std::max(from, kOrder); at < tokens.size(); ++at) {
    const std::uint64_t hash = hash_of(seed, tokens.subspan(at - kOrder, kOrder));
    Slot& slot = slots_[hash % kSlots];
    if (slot.check == 0 && ++used_ > kSlots / 4) {
      std::fill(slots_.begin(), slots_.end(), Slot{});
      used_ = 1;
    }
    slot = {check_of(hash), tokens[at]};
  }
}

std::vector<Token> SharedNgrams::propose(std::uint64_t seed, std::span<const Token> tokens,
                                         std::size_t limit) const {
  std::vector<Token> draft;
  if (slots_.empty() || tokens.size() < kOrder) return draft;
  std::vector<Token> text(tokens.end() - kOrder, tokens.end());
  while (draft.size() < limit) {
    const std::uint64_t hash = hash_of(seed, std::span(text).last(kOrder));
    const Slot& slot = slots_[hash % kSlots];
    if (slot.check != check_of(hash)) break;
    draft.push_back(slot.token);
    text.push_back(slot.token);
  }
  return draft;
}

}  // namespace gezel::speculation
