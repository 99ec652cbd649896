// worker/token_memory.h
//
// The tokens of the sequences whose cells are still in memory or were, found again by their text: what a slot
// no longer holds may be in the prefix cache. A model does not always write the tokens that a tokenizer would
// make of its text, least of all under a grammar; a conversation that comes back as text would then differ
// from its own cells. So the front of a prompt that is, byte for byte, the text of such a sequence gets that
// sequence's tokens, and only the rest is tokenized.
//
// A prompt is cut only beside a control token, where every tokenizer starts anew: what is new has the tokens
// that it would have had anyway.
#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "llama/llama.h"

namespace gezel::worker {

class TokenMemory {
 public:
  explicit TokenMemory(const llama::Vocab& vocab) : vocab_(vocab) {}

  // The tokens of the run whose cells a slot holds, sampled ones that were never computed included; empty:
  // nothing that may be used.
  void set(int slot, std::span<const llama::Token> tokens);
  // The slot is another run's now. Its last sequence is remembered for a while: the last kMostPast of them,
  // of at most kMostPastTokens together.
  void retire(int slot);
  void remember(std::vector<llama::Token> tokens);
  void forget_past();
  static constexpr std::size_t kMostPast = 128, kMostPastTokens = 512 * 1024;

  // The tokens of a prompt, with a beginning-of-text where the vocabulary asks for one. Called from one
  // thread while another sets.
  std::vector<llama::Token> tokenize(std::string_view text) const;

 private:
  struct Head {
    std::size_t tokens = 0;
    std::size_t bytes = 0;  // of the text
  };
  // How much of the sequence the text begins with: all of it, or up to after its last control token in
  // common.
  struct Match {
    Head whole, aligned;
  };
  Match match(std::span<const llama::Token> sequence, std::string_view text) const;

  const llama::Vocab& vocab_;
  mutable std::mutex mutex_;
  std::map<int, std::vector<llama::Token>> sequences_;
  std::deque<std::vector<llama::Token>> past_;  // the oldest first
  std::size_t past_tokens_ = 0;
};

}  // namespace gezel::worker
