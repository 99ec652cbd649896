// api/json_text.h
//
// JSON written straight into a string: frames of a stream are built thousands of times a second from a
// constant head and one escaped text, so they do not go through a document.
#pragma once
#include <string>
#include <string_view>

namespace gezel::api {

// Appends `text` (UTF-8) as a JSON string with its quotes; only what JSON requires is escaped.
void append_json_string(std::string& out, std::string_view text);
// Appends a finite number with at most three decimals; what is not finite becomes 0.
void append_json_number(std::string& out, double number);

}  // namespace gezel::api
