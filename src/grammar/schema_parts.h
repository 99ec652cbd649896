// grammar/schema_parts.h
//
// Between the parts of schema_walk; nothing outside includes it.
#pragma once
#include <map>
#include <optional>

#include "grammar/schema_walk.h"

namespace gezel::grammar {

// Where in the client's schema something stands.
struct SchemaPlace {
  std::string pointer;  // JSON pointer from the root
  const json::value* resource =
      nullptr;  // the schema that "#" means here: the root, or an embedded one with an "$id"
  int depth = 0;
};

// Finds what a "$ref" refers to inside the document.
class SchemaReferences {
 public:
  explicit SchemaReferences(const json::value& root);

  struct Target {
    const json::value* schema = nullptr;
    SchemaPlace place;
  };
  // Nothing: it does not stand in the document.
  std::optional<Target> resolve(std::string_view reference, const SchemaPlace& from) const;
  bool is_resource(const json::value& value) const { return resources_.contains(&value); }

 private:
  struct Resource {
    std::string uri;  // "" when it has no "$id"
    std::string pointer;
    std::map<std::string, Target, std::less<>> anchors;
  };
  void collect(const json::value& value, const SchemaPlace& place);
  std::optional<Target> walk(const json::value& resource, std::string_view pointer) const;

  const json::value& root_;
  std::map<const json::value*, Resource> resources_;
};

// Collects what the walk has to say, and decides what a problem means.
class SchemaReport {
 public:
  SchemaReport(SchemaMode mode, const SchemaLimits& limits) : mode_(mode), limits_(limits) {}

  bool lenient() const { return mode_ == SchemaMode::lenient; }
  const SchemaLimits& limits() const { return limits_; }
  void warn(std::string_view pointer, std::string_view what);
  // An error in strict mode, a warning in lenient mode.
  Result<> unsupported(std::string_view pointer, std::string_view keyword, std::string_view why);
  Result<> invalid(std::string_view pointer, std::string_view keyword, std::string_view why);
  std::vector<std::string> take_warnings();

 private:
  Result<> problem(const char* code, std::string_view pointer, std::string_view keyword,
                   std::string_view why);
  SchemaMode mode_;
  SchemaLimits limits_;
  std::vector<std::string> warnings_;
  std::size_t left_out_ = 0;
};

// The second pass, over the normal form: reference cycles that never reach a value, `oneOf`, and whether any
// finite value can satisfy the schema at all.
Result<> finish_schema(WalkedSchema& schema, SchemaReport& report);

// Calls `visit(child)` for every schema directly inside one keyword of a schema of the normal form.
template <class Value, class Visit>
void for_each_subschema_of(std::string_view key, Value& value, Visit&& visit) {
  if (key == "properties" || key == "patternProperties") {
    for (auto& member : value.as_object()) visit(member.value());
  } else if (key == "allOf" || key == "anyOf" || key == "oneOf" || key == "prefixItems") {
    for (auto& element : value.as_array()) visit(element);
  } else if (key == "items" || key == "additionalProperties") {
    visit(value);
  }
}
template <class Schema, class Visit>
void for_each_subschema(Schema& schema, Visit&& visit) {
  for (auto& member : schema) for_each_subschema_of(member.key(), member.value(), visit);
}

// What "#/$defs/NAME" names in the normal form; null when absent.
const json::value* definition_of(const json::object& definitions, const json::object& schema);
std::string_view place_of(const json::value& schema);

}  // namespace gezel::grammar
