// turn/json_chars.h
//
// Classes of characters in JSON as models write it. For the readers of this module.
#pragma once
#include <array>
#include <string_view>

namespace gezel::turn {

constexpr bool is_json_space(unsigned char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

constexpr bool is_ascii_alnum(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Of numbers, literals, bare words and bare keys. No quote, bracket or separator is one.
constexpr bool is_json_word(unsigned char c) {
  constexpr auto kWord = [] {
    std::array<bool, 256> word{};
    for (std::size_t i = 0; i < 256; ++i)
      word[i] = i >= 0x80 || is_ascii_alnum(static_cast<unsigned char>(i));
    for (const char other : std::string_view("_$-+./@#%&*~^!?\\="))
      word[static_cast<unsigned char>(other)] = true;
    return word;
  }();
  return kWord[c];
}

constexpr bool is_json_literal(std::string_view word) {
  return word == "true" || word == "false" || word == "null";
}

}  // namespace gezel::turn
