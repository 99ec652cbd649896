// Everything asked about tokens while decoding is answered from tables filled once, because the library's own
// calls go through several layers per token and the sampler asks about thousands.
#include <llama.h>

#include <exception>
#include <limits>

#include "base/big_stack.h"
#include "base/log.h"
#include "base/utf8.h"
#include "llama/llama.h"

namespace gezel::llama {
namespace {

// Control and unknown tokens have text in the vocabulary that is never meant for output.
constexpr int kHiddenAttributes = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN;

std::string piece_of(const llama_vocab* vocab, Token token) {
  std::string piece(64, '\0');
  auto length =
      llama_token_to_piece(vocab, token, piece.data(), static_cast<std::int32_t>(piece.size()), 0, true);
  if (length < 0) {
    piece.resize(static_cast<std::size_t>(-length));
    length =
        llama_token_to_piece(vocab, token, piece.data(), static_cast<std::int32_t>(piece.size()), 0, true);
  }
  piece.resize(static_cast<std::size_t>(std::max(length, 0)));
  return piece;
}

// The library's tokenizer. Throws what the library throws (ill-formed UTF-8 in some of its pre-tokenizers).
std::vector<Token> call_library(const llama_vocab* vocab, std::string_view text, bool parse_special) {
  // No text has more tokens than bytes but for a few added spaces, so a second call is the exception.
  std::vector<Token> tokens(text.size() + 16);
  const auto call = [&] {
    return llama_tokenize(vocab, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                          static_cast<std::int32_t>(tokens.size()), false, parse_special);
  };
  auto count = call();
  if (count < 0 && count != std::numeric_limits<std::int32_t>::min()) {
    tokens.resize(static_cast<std::size_t>(-count));
    count = call();
  }
  tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
  return tokens;
}

// The same for text that may be ill-formed, and for whatever else the library throws: tokens come back in any
// case.
std::vector<Token> call_safely(const llama_vocab* vocab, std::string_view text, bool parse_special) {
  try {
    try {
      return call_library(vocab, text, parse_special);
    } catch (const std::exception&) {
      // Vocabularies with byte tokens take any bytes; the others insist on UTF-8, and then U+FFFD is what is
      // left of it.
      return call_library(vocab, sanitize_utf8(text), parse_special);
    }
  } catch (const std::exception& error) {
    log_warn("the tokenizer failed", {{"source", "libllama"}, {"error", sanitize_utf8(error.what())}});
    return {};
  }
}

// Several pre-tokenizers of the library are regular expressions of the C++ library, which recurse once or
// more per character of a match: a run of 15,000 letters overflows an ordinary stack (measured: up to 560
// bytes of stack per byte of text). Matches end where white space begins or ends, so the longest such run
// decides how much stack is needed.
constexpr std::size_t kSafeRun = 500;  // bytes; fits any thread's stack many times
constexpr std::size_t kLongestRun =
    512 * kKiB;  // longer ones are cut, here only tokenization depends on where
constexpr std::size_t kStackPerByte = 1024;
constexpr std::size_t kStackBase = kMiB;

constexpr bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Lengths of the parts to tokenize one by one, so that no part has a run longer than `limit`; normally one.
struct Parts {
  std::vector<std::size_t> lengths;
  std::size_t longest_run = 0;
};

Parts cut_runs(std::string_view text, std::size_t limit) {
  Parts parts;
  std::size_t begin = 0;
  std::size_t run = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    run = i > begin && is_space(text[i]) == is_space(text[i - 1]) ? run + 1 : 1;
    const bool inside_character = (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
    if (run > limit && !inside_character) {
      parts.lengths.push_back(i - begin);
      begin = i;
      run = 1;
    }
    parts.longest_run = std::max(parts.longest_run, run);
  }
  parts.lengths.push_back(text.size() - begin);
  return parts;
}

std::vector<Token> call_parts(const llama_vocab* vocab, std::string_view text, const Parts& parts,
                              bool parse_special) {
  if (parts.lengths.size() == 1) return call_safely(vocab, text, parse_special);
  std::vector<Token> tokens;
  for (const auto length : parts.lengths) {
    const auto part = call_safely(vocab, text.substr(0, length), parse_special);
    tokens.insert(tokens.end(), part.begin(), part.end());
    text.remove_prefix(length);
  }
  return tokens;
}

std::vector<Token> call_with_stack(const llama_vocab* vocab, std::string_view text, bool parse_special) {
  // Only these have regular expressions.
  if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_BPE) return call_safely(vocab, text, parse_special);
  const Parts parts = cut_runs(text, kLongestRun);
  if (parts.longest_run <= kSafeRun) return call_parts(vocab, text, parts, parse_special);
  std::vector<Token> tokens;
  if (run_on_big_stack(kStackBase + parts.longest_run * kStackPerByte,
                       [&] { tokens = call_parts(vocab, text, parts, parse_special); })) {
    return tokens;
  }
  log_warn("no stack for a long word, so it is tokenized in parts",
           {{"bytes", std::to_string(parts.longest_run)}});
  return call_parts(vocab, text, cut_runs(text, kSafeRun), parse_special);
}

}  // namespace

Vocab::Vocab(const llama_vocab* vocab) : vocab_(vocab) {
  // A model without a tokenizer has a vocabulary of that kind and no tokens.
  size_ = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE ? 0 : llama_vocab_n_tokens(vocab);
  const auto count = static_cast<std::size_t>(size_);
  eog_.resize(count);
  hidden_.resize(count);
  control_.resize(count);
  defined_.resize(count);
  pieces_.reserve(count);
  for (Token token = 0; token < size_; ++token) {
    const auto index = static_cast<std::size_t>(token);
    const auto attributes = llama_vocab_get_attr(vocab, token);
    eog_[index] = llama_vocab_is_eog(vocab, token);
    if (eog_[index]) eog_list_.push_back(token);
    hidden_[index] = (attributes & kHiddenAttributes) != 0;
    control_[index] = (attributes & LLAMA_TOKEN_ATTR_CONTROL) != 0;
    defined_[index] = (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0;
    pieces_.push_back(piece_of(vocab, token));
    if ((attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED)) != 0) {
      special_.emplace(llama_vocab_get_text(vocab, token), token);  // the lowest id wins
    }
  }
}

Token Vocab::bos() const {
  return llama_vocab_bos(vocab_);
}
Token Vocab::eos() const {
  return llama_vocab_eos(vocab_);
}
bool Vocab::adds_bos() const {
  return llama_vocab_get_add_bos(vocab_) && bos() >= 0;
}

bool Vocab::adds_eos() const {
  return llama_vocab_get_add_eos(vocab_) && eos() >= 0;
}

int Vocab::type() const {
  return static_cast<int>(llama_vocab_type(vocab_));
}

bool Vocab::is_control(Token token) const {
  return token >= 0 && token < size_ && control_[static_cast<std::size_t>(token)];
}

bool Vocab::is_defined(Token token) const {
  return token >= 0 && token < size_ && defined_[static_cast<std::size_t>(token)];
}

std::string_view Vocab::piece(Token token, bool special) const {
  if (token < 0 || token >= size_) return {};
  const auto index = static_cast<std::size_t>(token);
  return hidden_[index] && !special ? std::string_view{} : std::string_view(pieces_[index]);
}

Token Vocab::find_special(std::string_view text) const {
  const auto found = special_.find(text);
  return found == special_.end() ? -1 : found->second;
}

std::vector<Token> Vocab::tokenize(std::string_view text, bool add_special, bool parse_special) const {
  std::vector<Token> tokens;
  if (size_ == 0) return tokens;
  if (text.size() > kMaxTokenizeBytes) {
    log_error("text refused by the tokenizer",
              {{"bytes", std::to_string(text.size())}, {"limit", std::to_string(kMaxTokenizeBytes)}});
    return tokens;
  }
  tokens = call_with_stack(vocab_, text, parse_special);
  // Done here and not by the library, which puts its own before one that the text already begins with. It
  // would also append an end-of-text token where a vocabulary asks for one, which would end a conversation
  // before it began.
  if (add_special && adds_bos() && (tokens.empty() || tokens.front() != bos()))
    tokens.insert(tokens.begin(), bos());
  if (add_special && llama_vocab_get_add_sep(vocab_) && llama_vocab_sep(vocab_) >= 0)
    tokens.push_back(llama_vocab_sep(vocab_));
  return tokens;
}

}  // namespace gezel::llama
