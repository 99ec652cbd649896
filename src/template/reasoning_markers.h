// template/reasoning_markers.h
//
// Does a rendered prompt end inside a reasoning block? Markers are rows 1 to 7 of the table in spec 50
// section 3.1.
#pragma once
#include <string>
#include <string_view>

namespace gezel::chat {

// True when the last opener in the text has no closer after it. Any closer closes a block of any opener. Rows
// 1 to 5 are recognised without regard to letter case.
bool ends_inside_reasoning(std::string_view text);

// A template shows one of the openers.
bool mentions_reasoning_marker(std::string_view template_source);

// The text with every marker made harmless ("<think>" becomes "< think>"): what people write about markers
// opens no block. Works on JSON text as well. Unchanged text comes back as "".
std::string without_markers(std::string_view text);

}  // namespace gezel::chat
