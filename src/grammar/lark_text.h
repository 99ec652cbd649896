// grammar/lark_text.h
//
// Pieces of Lark text as the constraint library reads it.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace gezel::grammar {

// A regular expression between slashes: slashes and line breaks in it escaped.
std::string lark_regex(std::string_view regex);
// A text in quotes, matched as it is. `text` is UTF-8 and not empty.
std::string lark_string(std::string_view text);

// The same grammar with up to eight blanks and line breaks before it. The grammar's start rule must be called
// "start".
std::string with_leading_space(const std::string& lark, bool wanted);

// An error `grammar-invalid` when a grammar of a client refers to tokens ("<|name|>", "<[123]>"): which token
// a number means depends on the model, and control tokens in an answer are not a client's to ask for.
Result<> refuse_tokens_in_lark(std::string_view lark);

}  // namespace gezel::grammar
