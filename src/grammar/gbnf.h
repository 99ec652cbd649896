// grammar/gbnf.h
//
// GBNF, the grammar notation of llama.cpp, translated to the Lark notation of the constraint library.
//
// The library reads text in lexemes and always takes the longest one, while GBNF knows characters only and no
// longest anything. So a translation is correct only if lexemes are chosen such that taking the longest never
// excludes a text: see gbnf_lexemes.h.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace gezel::grammar {

struct GbnfLimits {
  int depth = 100;               // groups inside groups
  std::size_t symbols = 20'000;  // in all rules
};

// Errors: `grammar-invalid` with line and column; also for references to tokens ("<...>"), which are not
// supported because a grammar is written without knowing the model.
Result<std::string> gbnf_to_lark(std::string_view text, const GbnfLimits& limits = {});

}  // namespace gezel::grammar
