// grammar/schema_walk.h
//
// What a client calls a JSON Schema, made into what the constraint library can enforce exactly: before any
// model is loaded, and with a precise answer when it cannot be done.
//
// The library names an unsupported keyword but not where it stands, refuses keywords that change nothing, and
// follows instructions to itself inside a schema. So every schema is walked here first. The result is a
// normal form: draft 2020-12, only local references, only keywords the library enforces, no annotations;
// patterns are written in the library's dialect, `oneOf` whose options exclude each other is `anyOf`.
// docs/json-schema.md lists what becomes of every keyword.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace gezel::grammar {

enum class SchemaMode {
  strict,   // what cannot be enforced is an error
  lenient,  // what cannot be enforced is left out with a warning: the constraint allows more than the schema
            // says
};

struct SchemaLimits {
  std::size_t bytes = 1024 * 1024;  // of the schema as compact JSON
  int depth = 60;                   // schemas inside schemas
  std::size_t nodes = 40'000;       // schemas in all, after references were followed
  std::size_t warnings = 32;        // kept; further ones are counted
};

// A schema in normal form. Every schema object in it has a member "$at", the JSON pointer of the place in the
// client's schema that it came from.
struct WalkedSchema {
  json::value root;
  json::object definitions;           // by the names that its "$ref"s use, "#/$defs/NAME"
  std::vector<std::string> warnings;  // "#/properties/a: ..."
};

// Errors: `schema-unsupported` and `schema-invalid`; `param` is the JSON pointer of the keyword, the message
// names keyword and place and says what to do. In lenient mode only what breaks a limit and a schema that
// nothing can satisfy are errors.
Result<WalkedSchema> walk_schema(const json::value& schema, SchemaMode mode, const SchemaLimits& limits = {});

// The text that the library compiles. White space in what it lets through is ", " and ": " and nothing else.
std::string schema_text(const WalkedSchema& schema);
// The same of one part of it.
std::string schema_text(const WalkedSchema& schema, const json::value& part);

// Appends a reference token to a JSON pointer.
std::string pointer_to(std::string_view pointer, std::string_view token);

// What becomes of a keyword.
enum class KeywordUse {
  enforced,
  partly,      // in some forms; other forms are refused
  annotation,  // changes nothing
  refused,
};
struct KeywordInfo {
  std::string_view name;
  KeywordUse use = KeywordUse::annotation;
  std::string_view note;  // for people: which forms, or what to use instead
};
// All keywords that are known, in the order of the documentation. Others are ignored with a warning.
std::vector<KeywordInfo> known_keywords();

}  // namespace gezel::grammar
