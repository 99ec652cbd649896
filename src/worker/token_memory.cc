#include "worker/token_memory.h"

#include <algorithm>

namespace gezel::worker {

void TokenMemory::set(int slot, std::span<const llama::Token> tokens) {
  const std::lock_guard lock(mutex_);
  if (tokens.empty()) {
    sequences_.erase(slot);
  } else {
    sequences_[slot].assign(tokens.begin(), tokens.end());
  }
}

void TokenMemory::retire(int slot) {
  std::vector<llama::Token> tokens;
  {
    const std::lock_guard lock(mutex_);
    if (const auto held = sequences_.find(slot); held != sequences_.end()) {
      tokens = std::move(held->second);
      sequences_.erase(held);
    }
  }
  if (!tokens.empty()) remember(std::move(tokens));
}

void TokenMemory::remember(std::vector<llama::Token> tokens) {
  const std::lock_guard lock(mutex_);
  // What a conversation was before its last turn is part of what it is now.
  std::erase_if(past_, [&](const auto& past) {
    const bool begins = past.size() <= tokens.size() && std::equal(past.begin(), past.end(), tokens.begin());
    if (begins) past_tokens_ -= past.size();
    return begins;
  });
  past_tokens_ += tokens.size();
  past_.push_back(std::move(tokens));
  while (past_.size() > kMostPast || past_tokens_ > kMostPastTokens) {
    past_tokens_ -= past_.front().size();
    past_.pop_front();
  }
}

void TokenMemory::forget_past() {
  const std::lock_guard lock(mutex_);
  past_.clear();
  past_tokens_ = 0;
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
    const std::vector<llama::Token>* longest = nullptr;
    const auto consider = [&](const std::vector<llama::Token>& sequence) {
      const Match found = match(sequence, text);
      if (std::max(found.whole.bytes, found.aligned.bytes) <=
          std::max(match_of_best.whole.bytes, match_of_best.aligned.bytes))
        return;
      longest = &sequence;
      match_of_best = found;
    };
    for (const auto& [slot, sequence] : sequences_) consider(sequence);
    for (const auto& sequence : past_) consider(sequence);
    if (longest != nullptr) best = *longest;
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
