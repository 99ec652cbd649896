#include "worker/token_memory.h"

namespace gezel::worker {

void TokenMemory::set(int slot, std::span<const llama::Token> tokens) {
  const std::lock_guard lock(mutex_);
  if (tokens.empty()) {
    sequences_.erase(slot);
  } else {
    sequences_[slot].assign(tokens.begin(), tokens.end());
  }
}

TokenMemory::Match TokenMemory::match(std::span<const llama::Token> sequence, std::string_view text) const {
  Match found;
  Head head;
  // The tokenizer adds the beginning-of-text; it is no part of the text.
  if (vocab_.adds_bos() && !sequence.empty() && sequence.front() == vocab_.bos() &&
      !text.starts_with(vocab_.piece(sequence.front(), true)))
    head.tokens = 1;
  for (; head.tokens < sequence.size(); ++head.tokens) {
    const llama::Token token = sequence[head.tokens];
    const std::string_view piece = vocab_.piece(token, true);
    if (piece.empty() || !text.substr(head.bytes).starts_with(piece)) return found;
    head.bytes += piece.size();
    if (vocab_.is_control(token)) found.aligned = {head.tokens + 1, head.bytes};
  }
  found.whole = head;
  return found;
}

std::vector<llama::Token> TokenMemory::tokenize(std::string_view text) const {
  const auto joined = [&](std::span<const llama::Token> sequence, Head head,
                          std::span<const llama::Token> rest) {
    std::vector<llama::Token> tokens(sequence.begin(),
                                     sequence.begin() + static_cast<std::ptrdiff_t>(head.tokens));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    return tokens;
  };
  std::vector<llama::Token> best;  // the sequence, copied: tokenizing takes a while
  Match match_of_best;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [slot, sequence] : sequences_) {
      const Match found = match(sequence, text);
      if (std::max(found.whole.bytes, found.aligned.bytes) <=
          std::max(match_of_best.whole.bytes, match_of_best.aligned.bytes))
        continue;
      best = sequence;
      match_of_best = found;
    }
  }
  if (match_of_best.whole.bytes > 0) {
    const auto rest = vocab_.tokenize(text.substr(match_of_best.whole.bytes), false, true);
    if (!rest.empty() && vocab_.is_control(rest.front())) return joined(best, match_of_best.whole, rest);
  }
  if (match_of_best.aligned.bytes > 0 && match_of_best.aligned.bytes < text.size()) {
    return joined(best, match_of_best.aligned,
                  vocab_.tokenize(text.substr(match_of_best.aligned.bytes), false, true));
  }
  return vocab_.tokenize(text, /*add_special=*/true, /*parse_special=*/true);
}

}  // namespace gezel::worker
