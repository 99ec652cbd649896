// grammar/gbnf_tree.h
//
// A grammar as GBNF means it: rules over characters. Between the parts of gbnf.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/char_set.h"
#include "grammar/gbnf.h"

namespace gezel::grammar {

struct GbnfNode {
  enum class Kind {
    set,       // one character of `set`
    sequence,  // all of `parts`; nothing when there are none
    choice,    // one of `parts`
    repeat,    // the only part, `min` to `max` times
    rule,      // what rule number `rule` says
  };
  Kind kind = Kind::sequence;
  CharSet set;
  std::vector<GbnfNode> parts;
  std::uint32_t min = 0;
  std::uint32_t max = 0;  // kNoEnd: any number
  int rule = -1;
};
inline constexpr std::uint32_t kNoEnd = 0xffffffff;

struct GbnfGrammar {
  std::vector<GbnfNode> rules;
  int root = -1;
};

Result<GbnfGrammar> parse_gbnf(std::string_view text, const GbnfLimits& limits);

// Writes the grammar with lexemes that make the library's longest-match reading agree with it.
std::string write_lark(const GbnfGrammar& grammar);

}  // namespace gezel::grammar
