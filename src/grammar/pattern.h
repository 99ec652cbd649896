// grammar/pattern.h
//
// The regular expressions of JSON Schema: ECMA-262 in Unicode mode, found anywhere in the text unless
// anchored.
//
// Read once into a tree, which is written out for the constraint library (whose dialect differs in \d, \w,
// \s, `.`, escapes and anchors) and matched by ourselves in the validator, in time proportional to text times
// pattern whatever the pattern.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/char_set.h"

namespace gezel::grammar {

struct PatternNode {
  enum class Kind {
    empty,
    set,       // one character of `set`
    property,  // one character with the Unicode property `property`
    concat,
    alternate,
    repeat,  // the only child, `min` to `max` times
    text_begin,
    text_end,
    word_boundary,
    no_word_boundary,
  };
  Kind kind = Kind::empty;
  CharSet set;
  std::string property;  // as written, "\p{Lu}" or "\P{Lu}"
  std::vector<PatternNode> children;
  std::uint32_t min = 0;
  std::uint32_t max = 0;  // kUnbounded: no end
};
inline constexpr std::uint32_t kUnbounded = 0xffffffff;

struct PatternLimits {
  std::size_t bytes = 16'384;
  int depth = 100;                 // nested groups
  std::uint32_t repeats = 10'000;  // the largest count in {m,n}
};

// Errors: `pattern-unsupported` (look-around, back-references, flags) or `pattern-invalid`; the message names
// the construct and its byte offset.
Result<PatternNode> parse_pattern(std::string_view text, const PatternLimits& limits = {});

// An expression of the constraint library that matches a whole text exactly when `node` is found in it.
// Errors: `pattern-unsupported` for word boundaries and for anchors anywhere but at the edges.
Result<std::string> pattern_for_constraint(const PatternNode& node);

// Matches by simulating all alternatives at once.
class PatternMatcher {
 public:
  // Errors: `pattern-unsupported` for Unicode properties (we carry no tables) and for more than `kMostSteps`
  // states.
  static Result<PatternMatcher> create(const PatternNode& node);

  // Whether the pattern is found anywhere in the text. Error: `pattern-too-costly`, text times pattern is
  // over `kMostWork`.
  Result<bool> found_in(std::string_view text) const;

  static constexpr std::size_t kMostSteps = 20'000;
  static constexpr std::uint64_t kMostWork = 20'000'000;

 private:
  struct Step {
    enum class Kind : std::uint8_t { set, fork, assertion, match } kind = Kind::match;
    PatternNode::Kind assertion = PatternNode::Kind::empty;
    std::uint32_t set = 0;  // index in sets_
    std::uint32_t next = 0;
    std::uint32_t other = 0;  // fork: the second way
  };
  struct Run;
  bool emit(const PatternNode& node, bool* too_many);

  std::vector<Step> steps_;
  std::vector<CharSet> sets_;
};

}  // namespace gezel::grammar
