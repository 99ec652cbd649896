#include "speculation/lookup.h"

#include <algorithm>

namespace gezel::speculation {
namespace {

// Of one hash only this many places are compared: in "a a a a ..." every place has the same.
constexpr int kPlacesCompared = 16;
constexpr std::size_t kFewestHeads = 256;

std::uint32_t hash_ending_at(std::span<const Token> tokens, std::size_t place) {
  std::uint64_t hash = 0;
  for (std::size_t i = place + 1 - kShortestMatch; i <= place; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens[i])) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return static_cast<std::uint32_t>(hash >> 32);
}

// How many tokens before and with `a` and `b` agree. a < b.
std::size_t common_end(std::span<const Token> tokens, std::size_t a, std::size_t b) {
  std::size_t same = 0;
  while (same < kLongestMatch && same <= a && tokens[a - same] == tokens[b - same]) ++same;
  return same;
}

}  // namespace

void Lookup::grow() {
  heads_.assign(std::max(kFewestHeads, heads_.size() * 4), 0);
  for (std::size_t place = 0; place < hashes_.size(); ++place) {
    std::uint32_t& head = heads_[hashes_[place] % heads_.size()];
    previous_[place] = head;
    head = static_cast<std::uint32_t>(place) + 1;
  }
}

void Lookup::index(std::span<const Token> tokens) {
  previous_.resize(tokens.size());
  hashes_.reserve(tokens.size());
  for (std::size_t place = hashes_.size(); place < tokens.size(); ++place) {
    // The first places have no whole n-gram; they stand in no chain that a search could begin with.
    hashes_.push_back(place + 1 < kShortestMatch ? 0 : hash_ending_at(tokens, place));
    if (place >= heads_.size() / 2) {
      grow();
      continue;
    }
    std::uint32_t& head = heads_[hashes_[place] % heads_.size()];
    previous_[place] = head;
    head = static_cast<std::uint32_t>(place) + 1;
  }
}

Proposal Lookup::propose(std::span<const Token> tokens, std::size_t limit) {
  index(tokens);
  Proposal best;
  if (tokens.size() <= kShortestMatch || limit == 0) return best;
  const std::size_t last = tokens.size() - 1;
  std::size_t from = 0;
  int compared = 0;
  for (std::uint32_t at = previous_[last]; at != 0 && compared < kPlacesCompared; at = previous_[at - 1]) {
    const std::size_t place = at - 1;
    ++compared;
    const std::size_t match = common_end(tokens, place, last);
    if (match < kShortestMatch || match <= best.match) continue;
    best.match = match;
    from = place + 1;
    if (match == kLongestMatch) break;
  }
  if (best.match == 0) return best;
  // Text that repeats itself goes on in what the draft itself says: "a b a b" is followed by "a b a b ...".
  best.tokens.reserve(limit);
  for (std::size_t i = 0; i < limit; ++i) {
    const std::size_t place = from + i;
    best.tokens.push_back(place < tokens.size() ? tokens[place] : best.tokens[place - tokens.size()]);
  }
  return best;
}

}  // namespace gezel::speculation
