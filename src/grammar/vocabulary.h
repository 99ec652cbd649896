// grammar/vocabulary.h
//
// The vocabulary that constraints are matched against: what bytes every token stands for, which tokens are
// control tokens and which end an answer, and how text is turned into tokens.
//
// A vocabulary is built once per loaded model, never changes, and may be used from any thread. The daemon,
// which knows no model, checks constraints against the byte vocabulary: 255 tokens of one byte each and an
// end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct LlgTokenizer;

namespace gezel::grammar {

using Token = std::int32_t;

// Canonical tokens of some text, without anything added before or behind it. Control tokens written out in
// the text are plain text. Must be safe to call from any thread and must not throw. It may get the bytes
// wrong (SentencePiece vocabularies put a blank before every fragment, others normalise): that is noticed and
// corrected here.
using Tokenize = std::function<std::vector<Token>(std::string_view)>;

struct TokenText {
  std::string_view bytes;  // what it adds to the text; of a control token its name. Empty: never produced
  bool control = false;    // only reached by its id, never by spelling its name
  bool defined = false;    // text that training always wrote as this one token, like Qwen's "<tool_call>"
};

struct VocabularySource {
  int size = 0;
  std::function<TokenText(Token)> token;  // called once for every id
  std::vector<Token> end_of_generation;   // allowed wherever a constraint may end; at least one
  Tokenize tokenize;                      // empty: no forced tokens
};

class Vocabulary {
 public:
  // Errors: `vocabulary-unusable` for no tokens, no end, ids out of range, or one the library refuses.
  static Result<std::shared_ptr<const Vocabulary>> create(const VocabularySource& source);
  // One byte a token; shared by all callers.
  static std::shared_ptr<const Vocabulary> of_bytes();

  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int size() const { return static_cast<int>(ends_.size()); }
  // Words of 32 bits in a mask: bit `t % 32` of word `t / 32` is token `t`.
  std::size_t mask_words() const { return (ends_.size() + 31) / 32; }
  // SHA-256 over all tokens: equal vocabularies have equal ids.
  const std::string& id() const { return id_; }
  // Whether forced tokens can be computed: there is a tokenizer, and every byte that text is made of has a
  // token of its own, so that any forced bytes can be written exactly. (Some vocabularies lack control
  // characters and what begins characters beyond U+3FFFF; text that needs those cannot be written with them
  // in any way.)
  bool forces() const { return forces_; }

  // Bytes of a token as they appear in the text; empty for control tokens and ids out of range.
  std::string_view bytes(Token token) const;
  bool is_control(Token token) const;
  bool ends_generation(Token token) const;
  const std::vector<Token>& end_of_generation() const { return eog_; }
  // The control token of this name, the lowest id when there are several.
  std::optional<Token> control(std::string_view name) const;
  // The control token of this name or the token that is defined to be this text.
  std::optional<Token> marker(std::string_view name) const;

  // Tokens that stand for exactly these bytes: the canonical ones where the tokenizer gives them, otherwise
  // the longest token at every place. Bytes without any token are left out, which cannot happen when
  // forces().
  std::vector<Token> tokenize(std::string_view text) const;

  const LlgTokenizer* handle() const { return handle_; }

 private:
  Vocabulary() = default;
  std::string_view raw(Token token) const;
  bool spell(std::string_view text, const std::vector<Token>& tokens, std::size_t from) const;
  std::vector<Token> longest(std::string_view text) const;
  void index();

  std::string data_;                 // the bytes of all tokens; of a control token 0xff and its name
  std::vector<std::uint32_t> ends_;  // where each token ends in data_
  std::vector<bool> control_;
  std::vector<Token> sorted_;  // text tokens by their bytes
  std::map<std::string, Token, std::less<>> names_;    // of control tokens
  std::map<std::string, Token, std::less<>> defined_;  // texts that are tokens by definition
  std::vector<Token> eog_;
  Tokenize tokenize_;
  std::string id_;
  bool forces_ = false;
  LlgTokenizer* handle_ = nullptr;
};

}  // namespace gezel::grammar
