// protocol/json_writer.h
//
// Appends JSON to a string: one pass, no tree. Numbers read back as the very same value.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <iterator>
#include <string>
#include <string_view>

namespace gezel::protocol {

// Ill-formed UTF-8 becomes U+FFFD: a frame is always valid JSON.
void append_json_string(std::string& out, std::string_view text);

// Lower-case hexadecimal in quotes, for bytes that need not be text.
void append_json_hex(std::string& out, std::string_view bytes);
// The bytes of such a string (without the quotes), or false.
bool decode_hex(std::string_view hex, std::string& bytes);

inline void append_json_number(std::string& out, std::integral auto value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}

// JSON has no infinities and no NaN; they are written as the strings "inf", "-inf" and "nan".
inline void append_json_number(std::string& out, std::floating_point auto value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "{}", value);  // the shortest text that reads back as `value`
  } else {
    out += std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
  }
}

}  // namespace gezel::protocol
