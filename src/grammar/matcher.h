// grammar/matcher.h
//
// One sequence under one constraint: which tokens may come next, which must.
//
// A matcher belongs to one sequence and is used by one thread at a time; different matchers, also those
// cloned from each other, share nothing that changes and may be used at the same time. So a mask can be
// computed on another thread while the decode thread runs the batch whose logits it will be applied to: hand
// the matcher over, and take it back with the mask.
//
// After an error a matcher stays in it. Nothing here throws and no panic of the library crosses this border.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/vocabulary.h"

struct LlgMatcher;

namespace gezel::grammar {

// Bounds on what one constraint may cost. The defaults are the library's own but for the first, which it
// reaches with a few hundred optional properties.
struct MatcherLimits {
  std::size_t row_items = 10'000;  // alternatives open at one place
  std::uint64_t compile_fuel = 1'000'000;
  std::uint64_t step_fuel = 200'000;   // lexer work for one mask
  std::size_t step_items = 50'000;     // parser work for one mask
  std::size_t lexer_states = 250'000;  // one or two KiB each
  std::size_t grammar_size = 500'000;  // symbols
};

// The notation of a compiled text: JSON Schema (normalised by schema_walk), Lark, or a list of both.
enum class Notation { json_schema, lark };

class Matcher {
 public:
  // Compiles. Errors: `constraint-unusable` with what the library said, one line. `text` without NUL.
  static Result<Matcher> compile(std::shared_ptr<const Vocabulary> vocabulary, Notation notation,
                                 const std::string& text, const MatcherLimits& limits = {});

  Matcher(Matcher&&) noexcept = default;
  Matcher& operator=(Matcher&&) noexcept = default;

  // A copy in the same state. Costs far less than compiling, but copies the automaton built so far.
  Matcher clone() const;

  // Sets the bit of every token that may come next and clears all others. When the constraint can take
  // nothing more, those of the end tokens. `mask` has vocabulary().mask_words() words.
  Result<> compute_mask(std::span<std::uint32_t> mask);
  // Advances by one token. Error: the constraint does not allow it; then the matcher is of no use any more.
  Result<> consume(Token token);
  // How many of `tokens` could be consumed from here, without consuming them.
  std::size_t allowed(std::span<const Token> tokens);
  // The tokens that must come next, whatever the model says; may be empty. They are not consumed yet.
  std::vector<Token> forced();
  // Takes the last `count` consumed tokens back.
  Result<> rollback(std::size_t count);

  // The text so far satisfies the constraint: an end token may come.
  bool accepting();
  // Nothing but an end token may come, or there was an error.
  bool stopped() const;
  // Empty: none.
  std::string error() const;

  const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  struct Free {
    void operator()(LlgMatcher* handle) const;
  };
  Matcher(std::shared_ptr<const Vocabulary> vocabulary, LlgMatcher* handle);
  Result<> failure() const;

  // Declared first: the handle refers to it.
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<LlgMatcher, Free> handle_;
};

// Whether a text would compile against the vocabulary; about half the work of compiling. Same errors.
Result<> check_grammar(const Vocabulary& vocabulary, Notation notation, const std::string& text,
                       const MatcherLimits& limits = {});

}  // namespace gezel::grammar
