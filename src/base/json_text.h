// base/json_text.h
//
// JSON written straight into a string, for what is written thousands of times a second and needs no document.
#pragma once
#include <string>
#include <string_view>

namespace gezel {

// Appends `text` (UTF-8, not checked) as a JSON string with its quotes; only what JSON requires is escaped.
void append_json_string(std::string& out, std::string_view text);

}  // namespace gezel
