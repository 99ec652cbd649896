// prompt/compact_tools.h
//
// Tools in fewer tokens, for models that drown in long descriptions (behaviour `prompt.compact-tool-schemas`,
// spec 50 section 2.4.5). Only what the model reads gets shorter: what it may call is decided by the schemas
// as they were sent.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "prompt/request.h"

namespace gezel::prompt {

inline constexpr std::size_t kCompactDescriptionChars = 96;

// The first sentence, at most kCompactDescriptionChars characters. A sentence ends at a line end or behind
// '.', '!' or '?' where white space or nothing follows.
std::string first_sentence(std::string_view text);

// The tool's description cut to its first sentence, and its parameter schemas without $comment, default,
// description, examples, markdownDescription and title. Structure, enums, required and the order of keys
// stay; properties that have such a name stay. What is no tool in JSON is left as it is.
void compact(Tool& tool);

}  // namespace gezel::prompt
