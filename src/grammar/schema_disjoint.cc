// A schema says several things at once (its own keywords, a reference, every member of "allOf"): its
// conjuncts. Two schemas exclude each other if one conjunct of the first excludes one of the second. Types,
// listed values, number ranges and required properties are compared; everything else is assumed to overlap.
#include "grammar/schema_disjoint.h"

#include <algorithm>
#include <cmath>

#include "grammar/json_compare.h"
#include "grammar/schema_parts.h"

namespace gezel::grammar {

namespace {

constexpr int kMostDepth = 12;
constexpr int kMostWork = 20'000;
constexpr std::size_t kMostPairs = 1'000'000;  // of listed values compared

enum : unsigned {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAny = 127
};

unsigned type_bit(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer") return kInteger;
  if (name == "number") return kInteger | kFraction;
  if (name == "string") return kString;
  return name == "array" ? kArray : kObject;
}

unsigned type_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return kNull;
    case json::kind::bool_:
      return kBoolean;
    case json::kind::int64:
    case json::kind::uint64:
      return kInteger;
    case json::kind::double_:
      return std::floor(value.get_double()) == value.get_double() ? kInteger : kFraction;
    case json::kind::string:
      return kString;
    case json::kind::array:
      return kArray;
    case json::kind::object:
      return kObject;
  }
  return kAny;
}

class Comparison {
 public:
  explicit Comparison(const json::object& definitions) : definitions_(definitions) {}

  bool disjoint(const json::value& a, const json::value& b, int depth) {
    if (depth > kMostDepth || ++work_ > kMostWork) return false;
    if (a == json::value(false) || b == json::value(false)) return true;
    if (!a.is_object() || !b.is_object()) return false;
    const auto in_a = conjuncts(a.get_object());
    const auto in_b = conjuncts(b.get_object());
    for (const auto* x : in_a) {
      for (const auto* y : in_b) {
        if (alternatives_disjoint(*x, b, depth) || alternatives_disjoint(*y, a, depth) ||
            plainly_disjoint(*x, *y))
          return true;
      }
    }
    return objects_disjoint(in_a, in_b, depth);
  }

 private:
  using Conjuncts = std::vector<const json::object*>;

  Conjuncts conjuncts(const json::object& schema) {
    Conjuncts all = {&schema};
    for (std::size_t i = 0; i < all.size() && i < 32; ++i) {
      const auto add = [&](const json::value* more) {
        const auto* object = more == nullptr ? nullptr : more->if_object();
        if (object != nullptr && std::ranges::find(all, object) == all.end()) all.push_back(object);
      };
      add(definition_of(definitions_, *all[i]));
      if (const auto* list = array_at(*all[i], "allOf")) {
        for (const auto& element : *list) add(&element);
      }
    }
    return all;
  }

  bool alternatives_disjoint(const json::object& schema, const json::value& other, int depth) {
    for (const auto* name : {"anyOf", "oneOf"}) {
      const auto* options = array_at(schema, name);
      if (options == nullptr) continue;
      if (std::ranges::all_of(*options,
                              [&](const auto& option) { return disjoint(option, other, depth + 1); }))
        return true;
    }
    return false;
  }

  static std::optional<json::array> values_of(const json::object& schema) {
    if (const auto* value = schema.if_contains("const")) return json::array{*value};
    if (const auto* list = array_at(schema, "enum")) return *list;
    return std::nullopt;
  }

  static unsigned types_of(const json::object& schema) {
    const auto* type = schema.if_contains("type");
    if (type == nullptr) return kAny;
    if (type->is_string()) return type_bit(type->get_string());
    unsigned bits = 0;
    for (const auto& name : type->get_array()) bits |= type_bit(name.get_string());
    return bits;
  }

  // One conjunct against another, without looking inside.
  static bool plainly_disjoint(const json::object& a, const json::object& b) {
    const auto a_types = types_of(a);
    const auto b_types = types_of(b);
    if ((a_types & b_types) == 0) return true;
    const auto a_values = values_of(a);
    const auto b_values = values_of(b);
    const auto size = [](const std::optional<json::array>& values) { return values ? values->size() : 1; };
    if (size(a_values) * size(b_values) > kMostPairs) return false;
    const auto excluded = [](const json::value& value, unsigned types,
                             const std::optional<json::array>& listed) {
      if ((type_of(value) & types) == 0) return true;
      return listed && std::ranges::none_of(*listed, [&](const auto& one) { return json_equal(one, value); });
    };
    const auto all_excluded = [&](const auto& values, unsigned types, const auto& listed) {
      return values &&
             std::ranges::all_of(*values, [&](const auto& v) { return excluded(v, types, listed); });
    };
    if (all_excluded(a_values, b_types, b_values) || all_excluded(b_values, a_types, a_values)) return true;
    const bool numbers = ((a_types | b_types) & ~(kInteger | kFraction)) == 0;
    return numbers && (upper(a) < lower(b) || upper(b) < lower(a));
  }

  static double upper(const json::object& schema) {
    return std::min(number_or(schema, "maximum", HUGE_VAL), number_or(schema, "exclusiveMaximum", HUGE_VAL));
  }
  static double lower(const json::object& schema) {
    return std::max(number_or(schema, "minimum", -HUGE_VAL),
                    number_or(schema, "exclusiveMinimum", -HUGE_VAL));
  }

  // Both must be objects, and there is a property that must be there and cannot be right for both.
  bool objects_disjoint(const Conjuncts& a, const Conjuncts& b, int depth) {
    const auto only_objects = [](const Conjuncts& all) {
      return std::ranges::any_of(all, [](const auto* part) { return types_of(*part) == kObject; });
    };
    if (!only_objects(a) || !only_objects(b)) return false;
    for (const auto* side : {&a, &b}) {
      for (const auto* part : *side) {
        const auto* names = array_at(*part, "required");
        if (names == nullptr) continue;
        for (const auto& name : *names) {
          if (property_disjoint(a, b, name.get_string(), depth)) return true;
        }
      }
    }
    return false;
  }

  bool property_disjoint(const Conjuncts& a, const Conjuncts& b, std::string_view name, int depth) {
    for (const auto* x : a) {
      for (const auto* y : b) {
        const auto* in_x = property(*x, name);
        const auto* in_y = property(*y, name);
        if (in_x != nullptr && in_y != nullptr && disjoint(*in_x, *in_y, depth + 1)) return true;
        for (const auto* only : {in_x, in_y}) {
          if (only != nullptr && *only == json::value(false)) return true;
        }
      }
    }
    return false;
  }

  static const json::value* property(const json::object& schema, std::string_view name) {
    if (const auto* properties = object_at(schema, "properties")) {
      if (const auto* found = properties->if_contains(name)) return found;
    }
    return schema.contains("patternProperties") ? nullptr : schema.if_contains("additionalProperties");
  }

  const json::object& definitions_;
  int work_ = 0;
};

}  // namespace

bool surely_disjoint(const json::value& a, const json::value& b, const json::object& definitions) {
  return Comparison(definitions).disjoint(a, b, 0);
}

}  // namespace gezel::grammar
