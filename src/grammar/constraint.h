// grammar/constraint.h
//
// A constraint on an answer, from what a client asked for to a matcher.
//
// The daemon checks: prepare() normalises and compiles against the byte vocabulary, so that a request that
// cannot be served is refused before any model is loaded. What it returns is text; it travels to the worker,
// which compiles it against the model's vocabulary.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/matcher.h"
#include "grammar/schema_walk.h"

namespace gezel::grammar {

enum class ConstraintKind {
  json_object,  // any JSON object; no text
  json_schema,  // text: the schema
  regex,        // text: a regular expression (Rust's syntax), for the whole answer
  lark,         // text: a grammar in Lark's notation as llguidance reads it
  gbnf,         // text: a grammar in llama.cpp's notation
  tools,        // text: tool_set_text() of tool_grammar.h
};
std::string_view constraint_kind_name(ConstraintKind kind);
std::optional<ConstraintKind> constraint_kind(std::string_view name);

// What travels. After prepare() the kind is json_schema, lark or tools.
struct ConstraintSpec {
  ConstraintKind kind = ConstraintKind::json_object;
  std::string text;
  // Up to eight blanks and line breaks may come first: after a reasoning block models write some, and without
  // them they would have to begin with a token they have not learned to begin with.
  bool leading_space = false;
};

struct ConstraintLimits {
  SchemaLimits schema;
  std::size_t text_bytes = 64 * 1024;  // of a regular expression or grammar
  MatcherLimits matcher;
};

struct PreparedConstraint {
  ConstraintSpec spec;
  std::vector<std::string> warnings;
};

// Errors: of walk_schema for schemas; `constraint-unusable` when the library cannot compile it, with the JSON
// pointer of the smallest part that fails in `param`; `grammar-invalid` for other notations. All are the
// client's (ErrorKind::invalid or too_large). The mode is for json_schema only.
Result<PreparedConstraint> prepare(const ConstraintSpec& wanted, SchemaMode mode = SchemaMode::strict,
                                   const ConstraintLimits& limits = {});

// Compiles what prepare() returned. Errors: `constraint-unusable`.
Result<Matcher> compile(const ConstraintSpec& spec, std::shared_ptr<const Vocabulary> vocabulary,
                        const MatcherLimits& limits = {});

}  // namespace gezel::grammar
