// turn/tool_schema.h
//
// What the parser knows of a tool: its name, its parameters' JSON Schema and the types each of them may have.
// Built once per request from the tool's JSON. Spec 50 section 6.3 says where types come from: `type`,
// `enum`, `const`, the union of `anyOf`/`oneOf`/`allOf`, and local references (`#/...`), at most
// kMaxSchemaDepth deep.
//
// Schemas are written by callers. What they get wrong (a reference to nowhere, a cycle, a type nobody knows)
// declares nothing and is never an error: a position that declares nothing allows every type.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "turn/names.h"

namespace gezel::turn {

// A set of JSON types, as bits.
using Types = std::uint8_t;
inline constexpr Types kNullType = 1, kBooleanType = 2, kIntegerType = 4, kNumberType = 8, kStringType = 16,
                       kArrayType = 32, kObjectType = 64, kAnyType = 127;

// Combinators and references followed at one position.
inline constexpr int kMaxSchemaDepth = 8;

// The types of a value: 3 and 3.0 are an integer and a number, 3.5 is a number.
Types types_of(const json::value& value);

// One position of a schema: every schema object that speaks about the value there (the branches of a union,
// what references lead to). Points into the tool's parameters and lives as long as they do.
struct SchemaPosition {
  const json::object* root = nullptr;  // what `#/...` refers to
  std::vector<const json::object*> schemas;
  Types types = kAnyType;  // what may stand here; kAnyType where nothing is declared
};

// The position of the value that `schema` describes.
SchemaPosition position_of(const json::object& root, const json::object& schema);
// The position of member `key` of an object: `properties`, else `additionalProperties`.
SchemaPosition member_position(const SchemaPosition& object, std::string_view key);
// The position of element `index` of an array: `prefixItems` (or `items` as a list), else `items`.
SchemaPosition element_position(const SchemaPosition& array, std::size_t index);

struct Property {
  std::string name;
  Types types = kAnyType;
  bool required = false;
};

struct ToolSchema {
  std::string name;
  json::object parameters;            // as the caller wrote it; {} when there is none
  std::vector<Property> properties;   // top level, in the order of the schema
  std::vector<std::string> required;  // top level, in the order of the schema, also those not in `properties`
  NameIndex keys;                     // of `properties`

  const Property* property(std::string_view key) const;  // exact name; null when there is none
  // The types that argument `key` may have; kAnyType when the tool does not declare it.
  Types types(std::string_view key) const;
  // The position of argument `key`. Invalid once the tool is moved.
  SchemaPosition position(std::string_view key) const;
};

// From {"type": "function", "function": {name, parameters}} or {name, parameters}. `parameters` that are
// absent, null or no object declare nothing. Errors: those of parse_json, and `invalid_tool_schema` when
// there is no name; param is "function.name".
Result<ToolSchema> read_tool_schema(std::string_view tool_json);
ToolSchema make_tool_schema(std::string name, json::object parameters);

}  // namespace gezel::turn
