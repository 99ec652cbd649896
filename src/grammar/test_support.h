// grammar/test_support.h
//
// Texts against constraints, and texts out of constraints.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "grammar/matcher.h"
#include "grammar/schema_walk.h"

namespace gezel::grammar::testing {

// The lines of testdata/grammar/NAME as JSON objects; lines that begin with "//" are comments.
inline std::vector<json::object> table(const std::string& name) {
  std::ifstream in(std::string(GEZEL_TESTDATA) + "/grammar/" + name);
  if (!in) {
    ADD_FAILURE() << "no " << name;
    std::abort();
  }
  std::vector<json::object> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with("//")) continue;
    auto row = parse_json(line);
    if (!row) {
      ADD_FAILURE() << name << ": " << row.error().message << "\n" << line;
      std::abort();
    }
    rows.push_back(row->as_object());
  }
  return rows;
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().code << ": " << result.error().message;
    std::abort();
  }
  return std::move(*result);
}

inline Matcher of_value(const json::value& schema, SchemaMode mode = SchemaMode::strict) {
  return must(Matcher::compile(Vocabulary::of_bytes(), Notation::json_schema,
                               schema_text(must(walk_schema(schema, mode)))));
}
inline Matcher of_schema(std::string_view text) {
  return of_value(must(parse_json(text)));
}
inline Matcher of_lark(const std::string& text) {
  return must(Matcher::compile(Vocabulary::of_bytes(), Notation::lark, text));
}

// Byte by byte, with the mask asked for every byte: whether the whole text is let through and may end there.
inline bool accepts(const Matcher& fresh, std::string_view text) {
  Matcher matcher = fresh.clone();
  std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
  for (const char c : text) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (matcher.stopped()) return false;
    if (!matcher.compute_mask(mask)) return false;
    if ((mask[byte / 32] >> (byte % 32) & 1) == 0) return false;
    if (!matcher.consume(static_cast<Token>(byte))) return false;
  }
  return matcher.accepting();
}

// A text that the constraint lets through: random bytes among the allowed ones, and an end where one is
// allowed and the text is long enough. Empty optional: `most` bytes did not suffice.
inline std::optional<std::string> random_text(const Matcher& fresh, std::mt19937& random,
                                              std::size_t most = 400) {
  Matcher matcher = fresh.clone();
  std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
  std::string text;
  while (text.size() < most) {
    if (matcher.accepting() && (matcher.stopped() || random() % 4 == 0 || text.size() > most / 2))
      return text;
    if (!matcher.compute_mask(mask)) {
      ADD_FAILURE() << matcher.error() << " after " << text;
      return std::nullopt;
    }
    std::vector<Token> allowed;
    std::vector<Token> closing;
    for (Token token = 0; token < 255; ++token) {
      if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) == 0) continue;
      allowed.push_back(token);
      if (token == '"' || token == '}' || token == ']') closing.push_back(token);
    }
    if (allowed.empty()) return text;
    // Long strings and lists are left soon.
    const auto& among = !closing.empty() && random() % 3 == 0 ? closing : allowed;
    const Token token = among[random() % among.size()];
    if (!matcher.consume(token)) {
      ADD_FAILURE() << "an allowed byte was refused: " << matcher.error() << " after " << text;
      return std::nullopt;
    }
    text += static_cast<char>(token);
  }
  return std::nullopt;
}

}  // namespace gezel::grammar::testing
