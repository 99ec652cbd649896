// speculation/lookup.h
//
// What may come next, by what stood there before: a run that repeats its prompt (code that is edited, quotes,
// structured lists) writes token sequences it has already seen (prompt lookup; spec 40 section 11.14, source
// 2).
//
// The end of the run's tokens is looked up among all its earlier places. The longest match wins, the latest
// of equals; what followed there is the draft. Pure, one per run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gezel::speculation {

using Token = std::int32_t;

inline constexpr std::size_t kShortestMatch = 3;  // tokens; shorter ones are chance
inline constexpr std::size_t kLongestMatch = 12;  // tokens compared; longer ones tell no more
inline constexpr std::size_t kMaxDraft = 48;      // tokens of one draft

struct Proposal {
  std::vector<Token> tokens;  // at most what was asked for; empty: nothing like it stood before
  std::size_t match = 0;      // tokens before them that agreed, at most kLongestMatch
};

class Lookup {
 public:
  // `tokens` are all of the run's so far; those of the last call are their beginning.
  Proposal propose(std::span<const Token> tokens, std::size_t limit);

 private:
  void index(std::span<const Token> tokens);
  void grow();

  // Places by the hash of the kShortestMatch tokens that end there, as chains from the latest back.
  std::vector<std::uint32_t> heads_;     // by hash: place + 1; 0: none
  std::vector<std::uint32_t> previous_;  // by place: the one before with the same hash, + 1
  std::vector<std::uint32_t> hashes_;    // by place
};

}  // namespace gezel::speculation
