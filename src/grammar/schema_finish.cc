#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "grammar/schema_disjoint.h"
#include "grammar/schema_parts.h"

namespace gezel::grammar {

namespace {

// The library descends through references it meets for the first time; each level costs it some KiB of stack.
constexpr int kMostLevels = 400;
// Looking whether a finite value exists is given up, and one assumed, after this many looks at a schema.
constexpr int kMostLooks = 2'000'000;

class Finish {
 public:
  Finish(WalkedSchema& schema, SchemaReport& report) : schema_(schema), report_(report) {}

  Result<> run() {
    if (levels(schema_.root, 0) > kMostLevels) return too_deep();
    GEZEL_CHECK(break_cycles());
    GEZEL_CHECK(exclusive(schema_.root));
    for (auto& member : schema_.definitions) GEZEL_CHECK(exclusive(member.value()));
    return satisfiable();
  }

 private:
  // ---- A reference that leads back to itself before any value is looked at says nothing.

  // What must hold for the same value as `schema`: other definitions.
  static void in_place(const json::value& schema, std::set<std::string>& names) {
    const auto* object = schema.if_object();
    if (object == nullptr) return;
    if (const auto* reference = object->if_contains("$ref"))
      names.insert(std::string(reference->get_string()));
    for (const auto* key : {"allOf", "anyOf", "oneOf"}) {
      if (const auto* list = array_at(*object, key)) {
        for (const auto& element : *list) in_place(element, names);
      }
    }
  }

  enum class Mark { open, done };

  static Result<> too_deep() {
    return fail(ErrorKind::invalid, "schema-unsupported",
                fmt::format("References follow each other more than {} levels deep; make the schema flatter.",
                            kMostLevels));
  }

  Result<> visit(const std::string& reference, int level) {
    if (level > kMostLevels) return too_deep();
    const auto [mark, is_new] = marks_.emplace(reference, Mark::open);
    if (!is_new) {
      if (mark->second == Mark::done) return {};
      looped_.insert(reference);
      return {};
    }
    auto& definition =
        schema_.definitions.at(std::string_view(reference).substr(std::string_view("#/$defs/").size()));
    std::set<std::string> next;
    in_place(definition, next);
    for (const auto& name : next) GEZEL_CHECK(visit(name, level + 1));
    marks_[reference] = Mark::done;
    return {};
  }

  Result<> break_cycles() {
    for (const auto& member : schema_.definitions)
      GEZEL_CHECK(visit("#/$defs/" + std::string(member.key()), 0));
    for (const auto& reference : looped_) {
      auto& definition =
          schema_.definitions.at(std::string_view(reference).substr(std::string_view("#/$defs/").size()));
      const std::string place(place_of(definition));
      GEZEL_CHECK(report_.unsupported(
          place, "$ref", "the schema refers to itself without going into a property or an element"));
      definition = true;
    }
    return {};
  }

  // ---- oneOf

  Result<> exclusive(json::value& schema) {
    auto* object = schema.if_object();
    if (object == nullptr) return {};
    Result<> result;
    for_each_subschema(*object, [&](json::value& child) {
      if (result) result = exclusive(child);
    });
    GEZEL_CHECK(result);
    const auto* options = array_at(*object, "oneOf");
    if (options == nullptr) return {};
    for (std::size_t i = 0; i < options->size(); ++i) {
      for (std::size_t k = i + 1; k < options->size(); ++k) {
        if (surely_disjoint((*options)[i], (*options)[k], schema_.definitions)) continue;
        const std::string pointer = pointer_to(std::string(place_of(schema)), "oneOf");
        if (report_.lenient()) {
          report_.warn(
              pointer,
              fmt::format("options {} and {} may hold together; any number of options is let through", i, k));
        } else {
          GEZEL_CHECK(report_.unsupported(pointer, "oneOf",
                                          fmt::format("options {} and {} may hold for the same value; use "
                                                      "'anyOf', or give each a required property with "
                                                      "a 'const' of its own",
                                                      i, k)));
        }
        return as_any_of(*object);
      }
    }
    return as_any_of(*object);
  }

  static Result<> as_any_of(json::object& schema) {
    json::value options = std::move(schema["oneOf"]);
    schema.erase("oneOf");
    if (!schema.contains("anyOf")) {
      schema["anyOf"] = std::move(options);
    } else {
      auto& all = schema["allOf"];
      if (!all.is_array()) all = json::array();
      all.get_array().push_back(
          json::object{{"anyOf", std::move(options)}, {"$at", place_of(json::value(schema))}});
    }
    return {};
  }

  // ---- How deep the library will descend: it follows every reference the first time it meets it, arrays
  // before objects, and whole schemas that apply in place last.

  int levels(const json::value& schema, int level) {
    const auto* object = schema.if_object();
    if (object == nullptr || level > kMostLevels) return level;
    int deepest = level;
    const auto below = [&](const json::value& child) {
      deepest = std::max(deepest, levels(child, level + 1));
    };
    for (const auto* key :
         {"prefixItems", "items", "properties", "patternProperties", "additionalProperties"}) {
      const auto* value = object->if_contains(key);
      if (value != nullptr) for_each_subschema_of(key, *value, below);
    }
    for (const auto& [key, value] : *object) {
      if (key == "allOf" || key == "anyOf" || key == "oneOf") {
        for_each_subschema_of(key, value, below);
      } else if (key == "$ref") {
        const auto* definition = definition_of(schema_.definitions, *object);
        if (definition != nullptr && met_.insert(definition).second) below(*definition);
      }
    }
    return deepest;
  }

  // ---- Whether some finite value satisfies the schema: "an object that must contain an object of its own
  // kind" has none, and an answer to it would never end.

  bool finite(const json::value& schema) {
    if (schema.is_bool()) return schema.get_bool();
    if (++looks_ > kMostLooks) return true;
    const auto& object = schema.get_object();
    if (const auto* definition = definition_of(schema_.definitions, object);
        definition != nullptr && !finite_.contains(definition)) {
      return false;
    }
    const auto holds = [this](const json::value& part) { return finite(part); };
    if (const auto* list = array_at(object, "allOf"); list != nullptr && !std::ranges::all_of(*list, holds))
      return false;
    for (const auto* key : {"anyOf", "oneOf"}) {
      if (const auto* list = array_at(object, key); list != nullptr && !std::ranges::any_of(*list, holds))
        return false;
    }
    const auto* type = object.if_contains("type");
    if (type == nullptr || !type->is_string()) return true;  // a value of another type will do
    if (type->get_string() == "object") return required_finite(object);
    if (type->get_string() == "array" && int_or(object, "minItems", 0) > 0) {
      const auto* first = array_at(object, "prefixItems");
      const auto* element = first != nullptr && !first->empty() ? &(*first)[0] : object.if_contains("items");
      return element == nullptr || finite(*element);
    }
    return true;
  }

  bool required_finite(const json::object& object) {
    const auto* names = array_at(object, "required");
    const auto* properties = object_at(object, "properties");
    if (names == nullptr || properties == nullptr) return true;
    return std::ranges::all_of(*names, [&](const auto& name) {
      const auto* property = properties->if_contains(std::string_view(name.get_string()));
      return property == nullptr || finite(*property);
    });
  }

  Result<> satisfiable() {
    for (bool grew = true; grew;) {
      grew = false;
      for (const auto& member : schema_.definitions) {
        if (finite_.contains(&member.value()) || !finite(member.value())) continue;
        finite_.insert(&member.value());
        grew = true;
      }
    }
    if (finite(schema_.root)) return {};
    return fail(ErrorKind::invalid, "schema-invalid",
                "No finite value satisfies the schema: what it requires contains itself again, or nothing is "
                "allowed.");
  }

  WalkedSchema& schema_;
  SchemaReport& report_;
  std::map<std::string, Mark> marks_;
  std::set<std::string> looped_;
  std::set<const json::value*> met_;
  std::set<const json::value*> finite_;
  int looks_ = 0;
};

// Whether an object may have keys beside the named ones. Such a key can be written with escapes, and then the
// library does not see that it is one of the named keys.
bool has_open_names(const json::value& schema) {
  const auto* object = schema.if_object();
  if (object == nullptr) return false;
  const auto* more = object->if_contains("additionalProperties");
  const bool open = more == nullptr || *more != json::value(false);
  const auto names = [&](const char* key) { return object->contains(key); };
  if (open && (names("properties") || names("patternProperties") || names("required"))) return true;
  bool inside = false;
  for_each_subschema(*object, [&](const json::value& child) { inside = inside || has_open_names(child); });
  return inside;
}

json::value without_places(const json::value& schema) {
  const auto* object = schema.if_object();
  if (object == nullptr) return schema;
  json::object out = *object;
  out.erase("$at");
  for_each_subschema(out, [](json::value& child) { child = without_places(child); });
  return out;
}

}  // namespace

Result<> finish_schema(WalkedSchema& schema, SchemaReport& report) {
  return Finish(schema, report).run();
}

std::string schema_text(const WalkedSchema& schema) {
  return schema_text(schema, schema.root);
}

std::string schema_text(const WalkedSchema& schema, const json::value& part) {
  json::object out;
  if (part.is_object())
    out = without_places(part).get_object();
  else if (!part.get_bool())
    return "false";
  json::object definitions;
  bool open = has_open_names(part);
  for (const auto& member : schema.definitions) {
    definitions[member.key()] = without_places(member.value());
    open = open || has_open_names(member.value());
  }
  if (!definitions.empty()) out["$defs"] = std::move(definitions);
  out["x-guidance"] = json::object{{"whitespace_flexible", false},
                                   {"item_separator", ", "},
                                   {"key_separator", ": "},
                                   {"json_allowed_escapes", open ? "nrbtf\\\"" : "nrbtf\\\"u"}};
  return json::serialize(out);
}

}  // namespace gezel::grammar
