// One function per keyword, in one table. A keyword's function reads its value and writes what the normal
// form needs; what cannot be enforced goes to the report, which makes an error of it (strict) or a warning
// (lenient), and in the latter case the keyword is simply not written. Leaving out an assertion always allows
// more, never less, because the normal form has no negation.
#include "grammar/schema_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "grammar/formats.h"
#include "grammar/pattern.h"
#include "grammar/schema_numbers.h"
#include "grammar/schema_parts.h"

namespace gezel::grammar {

namespace {

constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
constexpr std::string_view kFormats[] = {"date-time", "time", "date", "duration", "email",
                                         "hostname",  "ipv4", "ipv6", "uuid",     "uri"};
// The library keeps every one of them open at the same time.
constexpr std::size_t kMostOptional = 1'000;
constexpr std::uint64_t kMostCount = 1'000'000;  // of minLength, maxItems and their like

class Walker;
struct Node {
  const json::object& in;
  json::object out;
  const SchemaPlace& place;
  bool has(std::string_view key) const { return in.contains(key); }
  std::string at(std::string_view key) const { return pointer_to(place.pointer, key); }
};

using Handler = Result<> (Walker::*)(const json::value& value, std::string_view key, Node& node);
struct Keyword {
  std::string_view name;
  KeywordUse use;
  Handler handler;  // null: nothing is written
  std::string_view note = {};
};
extern const std::vector<Keyword> kKeywords;

const Keyword* find_keyword(std::string_view name) {
  static const auto sorted = [] {
    std::map<std::string_view, const Keyword*> index;
    for (const auto& keyword : kKeywords) index.emplace(keyword.name, &keyword);
    return index;
  }();
  const auto found = sorted.find(name);
  return found == sorted.end() ? nullptr : found->second;
}

bool is_true_schema(const json::value& value) {
  return (value.is_bool() && value.get_bool()) || (value.is_object() && value.get_object().empty());
}

class Walker {
 public:
  Walker(const json::value& root, SchemaReport& report) : references_(root), report_(report), root_(root) {
    if (const auto* object = root.if_object()) {
      const auto draft = string_or(*object, "$schema");
      siblings_of_ref_count_ =
          draft.find("draft-04") == std::string::npos && draft.find("draft-06") == std::string::npos &&
          draft.find("draft-07") == std::string::npos && draft.find("draft-03") == std::string::npos;
      items_may_be_list_ = draft.find("2020-12") == std::string::npos;
    }
  }

  Result<WalkedSchema> run() {
    WalkedSchema walked;
    GEZEL_TRY(walked.root, schema(root_, {.resource = &root_}));
    while (!todo_.empty()) {
      const auto [name, target] = std::move(todo_.front());
      todo_.pop_front();
      GEZEL_TRY(auto made, schema(*target.schema, target.place));
      walked.definitions.insert_or_assign(name, std::move(made));
    }
    return walked;
  }

  Result<json::value> schema(const json::value& value, SchemaPlace place) {
    if (references_.is_resource(value)) place.resource = &value;
    const auto& limits = report_.limits();
    if (++nodes_ > limits.nodes) {
      return fail(
          ErrorKind::invalid, "schema-unsupported",
          fmt::format(
              "The schema has more than {} parts, counting what its references repeat; make it smaller.",
              limits.nodes),
          place.pointer);
    }
    if (place.depth > limits.depth) {
      GEZEL_CHECK(
          report_.unsupported(place.pointer, "", fmt::format("schemas nest deeper than {}", limits.depth)));
      return json::value(true);
    }
    if (value.is_bool()) return value;
    const auto* object = value.if_object();
    if (object == nullptr) {
      GEZEL_CHECK(report_.invalid(place.pointer, "", "a schema is an object or a boolean"));
      return json::value(true);
    }
    Node node{*object, {}, place};
    if (!siblings_of_ref_count_ && node.has("$ref")) {  // until draft 7 a reference stands alone
      GEZEL_CHECK(reference(object->at("$ref"), "$ref", node));
    } else {
      for (const auto& [key, member] : *object) GEZEL_CHECK(keyword(key, member, node));
    }
    return in_order(std::move(node.out), place);
  }

  // ---- one function per keyword, in the order of the table

  Result<> reference(const json::value& value, std::string_view key, Node& node) {
    const auto* text = value.if_string();
    if (text == nullptr) return report_.invalid(node.at(key), key, "a reference is a string");
    const auto target = references_.resolve(*text, node.place);
    if (!target) {
      const bool local = text->starts_with('#');
      return report_.unsupported(
          node.at(key), key,
          fmt::format("'{}' {}", std::string_view(*text),
                      local ? "does not exist in this schema"
                            : "is outside this schema; only references into it are followed"));
    }
    const auto [known, is_new] = names_.emplace(target->place.pointer, fmt::format("d{}", names_.size()));
    if (is_new) todo_.emplace_back(known->second, *target);
    node.out["$ref"] = "#/$defs/" + known->second;
    return {};
  }

  Result<> dynamic_reference(const json::value& value, std::string_view key, Node& node) {
    return report_.unsupported(node.at(key), key, fmt::format("use '$ref' for {}", json::serialize(value)));
  }

  Result<> type(const json::value& value, std::string_view key, Node& node) {
    json::array names;
    if (value.is_string())
      names = {value};
    else if (value.is_array())
      names = value.get_array();
    for (const auto& name : names) {
      if (!name.is_string() ||
          std::ranges::find(kTypes, std::string_view(name.get_string())) == std::end(kTypes)) {
        return report_.invalid(
            node.at(key), key,
            fmt::format("{} is no type; the types are {}", json::serialize(name), fmt::join(kTypes, ", ")));
      }
    }
    if (names.empty()) return report_.invalid(node.at(key), key, "a type is a name or a list of names");
    // A list with both is the wider one; the library would take the two for alternatives of the same text.
    if (std::ranges::find(names, json::value("number")) != names.end()) {
      if (const auto narrow = std::ranges::find(names, json::value("integer")); narrow != names.end())
        names.erase(narrow);
    }
    if (names.size() == 1)
      node.out["type"] = names[0];
    else
      node.out["type"] = std::move(names);
    return {};
  }

  Result<> values(const json::value& value, std::string_view key, Node& node) {
    if (key == "enum" && !value.is_array())
      return report_.invalid(node.at(key), key, "it is a list of values");
    if (key == "enum" && value.get_array().empty())
      return report_.invalid(node.at(key), key, "no value is allowed");
    if (has_inexact_number(value)) {
      return report_.unsupported(node.at(key), key, "numbers beyond 2^53 cannot be told apart");
    }
    node.out[key] = value;
    return {};
  }

  Result<> number_bound(const json::value& value, std::string_view key, Node& node) {
    if (value.is_bool() && key.starts_with("exclusive")) return {};  // draft 4: see below
    if (!value.is_number()) return report_.invalid(node.at(key), key, "it is a number");
    const bool upper = key.ends_with("aximum");
    auto bound = enforceable_bound(value, upper);
    if (!bound) {
      return report_.unsupported(node.at(key), key, "the bound is beyond the range of 64-bit integers");
    }
    // Draft 4 made a bound exclusive with a flag beside it.
    const std::string_view exclusive_key = upper ? "exclusiveMaximum" : "exclusiveMinimum";
    const bool exclusive = !key.starts_with("exclusive") && bool_or(node.in, exclusive_key, false);
    node.out[exclusive ? exclusive_key : key] = std::move(*bound);
    return {};
  }

  Result<> multiple_of(const json::value& value, std::string_view key, Node& node) {
    const double step = value.is_number() ? value.to_number<double>() : 0;
    if (!(step > 0)) return report_.invalid(node.at(key), key, "it is a number above 0");
    double digits = step;
    int places = 0;
    for (; places <= 8 && std::floor(digits) != digits; ++places) digits = step * std::pow(10, places + 1);
    if (places > 8 || digits > 1e9) {
      return report_.unsupported(node.at(key), key, "it may have nine digits, eight of them after the point");
    }
    node.out[key] = value;
    return {};
  }

  Result<> count(const json::value& value, std::string_view key, Node& node) {
    const auto number = count_of(value);
    if (!number) return report_.invalid(node.at(key), key, "it is a whole number, 0 or more");
    if (*number > kMostCount) {
      if (key.starts_with("max")) {
        report_.warn(node.at(key), fmt::format("{} is above {} and is not enforced", *number, kMostCount));
        return {};
      }
      return report_.unsupported(node.at(key), key, fmt::format("it may be {} at most", kMostCount));
    }
    if (*number == 0 && key.starts_with("min")) return {};
    node.out[key] = static_cast<std::int64_t>(*number);
    return {};
  }

  Result<> pattern(const json::value& value, std::string_view key, Node& node) {
    if (!value.is_string()) return report_.invalid(node.at(key), key, "it is a string");
    const auto written = translate(value.get_string());
    if (!written) return report_.unsupported(node.at(key), key, written.error().message);
    node.out[key] = *written;
    return {};
  }

  Result<> format(const json::value& value, std::string_view key, Node& node) {
    if (!value.is_string()) return report_.invalid(node.at(key), key, "it is a string");
    const std::string_view name = value.get_string();
    if (const auto pattern = format_pattern(name); pattern && !node.has("pattern")) {
      GEZEL_TRY(node.out["pattern"], translate(*pattern));
      return {};
    }
    if (std::ranges::find(kFormats, name) == std::end(kFormats)) {
      report_.warn(node.at(key), fmt::format("format '{}' is not enforced", name));
      return {};
    }
    node.out[key] = value;
    return {};
  }

  Result<> items(const json::value& value, std::string_view key, Node& node) {
    if (value.is_array() && items_may_be_list_) {
      GEZEL_CHECK(list(value, "prefixItems", node, key));
      if (const auto* more = node.in.if_contains("additionalItems")) {
        GEZEL_TRY(node.out["items"], inside(*more, node, "additionalItems"));
      }
      return {};
    }
    GEZEL_TRY(node.out["items"], inside(value, node, key));
    return {};
  }

  Result<> prefix_items(const json::value& value, std::string_view key, Node& node) {
    return list(value, key, node, key);
  }

  Result<> unique_items(const json::value& value, std::string_view key, Node& node) {
    if (!value.is_bool()) return report_.invalid(node.at(key), key, "it is true or false");
    if (!value.get_bool() || count_at(node.in, "maxItems").value_or(2) <= 1) return {};
    return report_.unsupported(node.at(key), key, "leave it out, or list the possible arrays with 'enum'");
  }

  Result<> contains(const json::value& value, std::string_view key, Node& node) {
    if (count_at(node.in, "minContains").value_or(1) == 0 && !node.has("maxContains")) return {};
    if (is_true_schema(value) && !node.has("minContains") &&
        !node.has("maxContains")) {  // any element: not empty
      node.out["minItems"] =
          static_cast<std::int64_t>(std::max<std::uint64_t>(1, count_at(node.in, "minItems").value_or(0)));
      return {};
    }
    return report_.unsupported(node.at(key), key, "describe the elements with 'prefixItems' and 'items'");
  }

  Result<> min_items(const json::value& value, std::string_view key, Node& node) {
    if (node.out.contains("minItems")) return {};  // `contains` wrote it
    return count(value, key, node);
  }

  // "unevaluated..." means the rest that no other keyword looked at. Without keywords that apply whole
  // schemas in place, that is what the "additional" keyword means.
  Result<> unevaluated(const json::value& value, std::string_view key, Node& node) {
    if (is_true_schema(value)) return {};
    for (const auto* applicator : {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if",
                                   "not", "dependentSchemas", "dependencies", "contains"}) {
      if (!node.has(applicator)) continue;
      return report_.unsupported(node.at(key), key,
                                 fmt::format("it is enforced only where there is no '{}'", applicator));
    }
    const bool array = key == "unevaluatedItems";
    if (!array && free_keys_.contains(&node.in)) return {};
    const std::string_view same = array ? "items" : "additionalProperties";
    if (node.has(same) && !(array && node.in.at("items").is_array())) return {};
    if (array && node.in.contains("additionalItems")) return {};
    GEZEL_TRY(node.out[same], inside(value, node, key));
    return {};
  }

  Result<> properties(const json::value& value, std::string_view key, Node& node) {
    const auto* members = value.if_object();
    if (members == nullptr) return report_.invalid(node.at(key), key, "it is an object of schemas");
    const auto* required = array_at(node.in, "required");
    if (members->size() > kMostOptional + (required == nullptr ? 0 : required->size())) {
      free_keys_.insert(&node.in);
      node.out.erase("additionalProperties");
      return report_.unsupported(
          node.at(key), key,
          fmt::format("an object may have {} optional properties; require more of them", kMostOptional));
    }
    json::object out;
    for (const auto& [name, member] : *members) {
      const SchemaPlace place = below(node.place, pointer_to(node.at(key), name));
      if (key == "properties") {
        GEZEL_TRY(out[name], schema(member, place));
        continue;
      }
      const auto written = translate(name);
      if (written) {
        GEZEL_TRY(out[*written], schema(member, place));
        continue;
      }
      GEZEL_CHECK(report_.unsupported(place.pointer, key, written.error().message));
      // What such keys may hold is unknown now, so nothing can be said about the other keys either.
      free_keys_.insert(&node.in);
    }
    node.out[key] = std::move(out);
    if (free_keys_.contains(&node.in)) node.out.erase("additionalProperties");
    return {};
  }

  Result<> additional_properties(const json::value& value, std::string_view key, Node& node) {
    if (free_keys_.contains(&node.in)) return {};
    GEZEL_TRY(node.out[key], inside(value, node, key));
    return {};
  }

  Result<> required(const json::value& value, std::string_view key, Node& node) {
    if (value.is_bool()) {  // draft 3
      return report_.invalid(node.at(key), key,
                             "it is a list of names at the object, not a flag at the property");
    }
    const auto* names = value.if_array();
    if (names == nullptr || !std::ranges::all_of(*names, [](const auto& name) { return name.is_string(); })) {
      return report_.invalid(node.at(key), key, "it is a list of names");
    }
    if (!names->empty()) node.out[key] = *names;
    return {};
  }

  // The library counts properties only when it need not count optional named ones.
  Result<> property_count(const json::value& value, std::string_view key, Node& node) {
    if (!count_of(value)) return report_.invalid(node.at(key), key, "it is a whole number, 0 or more");
    std::set<std::string_view> names;
    if (const auto* list = array_at(node.in, "required")) {
      for (const auto& name : *list) {
        if (name.is_string()) names.insert(std::string_view(name.get_string()));
      }
    }
    const std::uint64_t required = names.size();
    std::uint64_t optional = 0;
    if (const auto* properties = object_at(node.in, "properties")) {
      for (const auto& member : *properties) optional += names.contains(member.key()) ? 0 : 1;
    }
    const bool closed = node.in.contains("additionalProperties") &&
                        node.in.at("additionalProperties") == json::value(false) &&
                        !node.has("patternProperties");
    if (key == "minProperties" && *count_of(value) <= required) return {};
    if (key == "maxProperties" && closed && *count_of(value) >= required + optional) return {};
    const auto min = count_at(node.in, "minProperties").value_or(0);
    const auto max = count_at(node.in, "maxProperties");
    const bool at_most_one = !max || *max == required + 1;
    if (optional > 0 && !(closed && min <= required + 1 && at_most_one)) {
      return report_.unsupported(node.at(key), key,
                                 "it is enforced only where all named properties are required");
    }
    return count(value, key, node);
  }

  Result<> all_of(const json::value& value, std::string_view key, Node& node) {
    json::array before;
    if (node.out.contains(key)) before = node.out[key].get_array();
    GEZEL_CHECK(options(value, key, node));
    if (!before.empty()) conjuncts(node).insert(conjuncts(node).end(), before.begin(), before.end());
    return {};
  }

  Result<> options(const json::value& value, std::string_view key, Node& node) {
    if (value.is_array() && value.get_array().empty())
      return report_.invalid(node.at(key), key, "the list is empty");
    return list(value, key, node, key);
  }

  Result<> negation(const json::value& value, std::string_view key, Node& node) {
    if (value == json::value(false)) return {};
    if (is_true_schema(value)) return report_.invalid(node.at(key), key, "nothing is allowed");
    // "no string" is "one of the other types".
    if (value.is_object() && value.get_object().size() == 1 && value.get_object().contains("type")) {
      Node inner{value.get_object(), {}, node.place};
      GEZEL_CHECK(type(inner.in.at("type"), "type", inner));
      if (const auto rest = other_types(inner.out)) {
        conjuncts(node).push_back(json::object{{"type", *rest}, {"$at", node.at(key)}});
        return {};
      }
    }
    return report_.unsupported(node.at(key), key, "say what is allowed instead");
  }

  // "if" without branches and branches without "if" change nothing.
  Result<> condition(const json::value&, std::string_view key, Node& node) {
    if (!node.has("if") || (!node.has("then") && !node.has("else"))) return {};
    return report_.unsupported(node.at(key), key, "list the cases with 'anyOf'");
  }

  Result<> dependency(const json::value& value, std::string_view key, Node& node) {
    if (value.is_object() && value.get_object().empty()) return {};
    return report_.unsupported(node.at(key), key, "list the cases with 'anyOf'");
  }

  Result<> property_names(const json::value& value, std::string_view key, Node& node) {
    if (is_true_schema(value)) return {};
    return report_.unsupported(node.at(key), key,
                               "use 'patternProperties' with \"additionalProperties\": false");
  }

 private:
  SchemaPlace below(const SchemaPlace& place, std::string pointer) const {
    return {.pointer = std::move(pointer), .resource = place.resource, .depth = place.depth + 1};
  }

  Result<json::value> inside(const json::value& value, const Node& node, std::string_view key) {
    return schema(value, below(node.place, node.at(key)));
  }

  static json::array& conjuncts(Node& node) {
    auto& all = node.out["allOf"];
    if (!all.is_array()) all = json::array();
    return all.get_array();
  }

  // Nothing for "integer": what is left of the numbers is no type.
  static std::optional<json::array> other_types(const json::object& schema) {
    const auto* type = schema.if_contains("type");
    if (type == nullptr) return std::nullopt;
    const json::array given = type->is_array() ? type->get_array() : json::array{*type};
    json::array rest;
    for (const auto name : kTypes) {
      const bool excluded = std::ranges::find(given, json::value(name)) != given.end();
      if (name == "integer" && excluded) return std::nullopt;
      if (name != "integer" && !excluded) rest.emplace_back(name);
    }
    if (rest.empty()) return std::nullopt;
    return rest;
  }

  // Keywords that apply whole schemas go last: the library takes the keywords before and behind them for
  // separate schemas, and then "additionalProperties" no longer sees all properties.
  static json::value in_order(json::object schema, const SchemaPlace& place) {
    json::object ordered;
    ordered.reserve(schema.size() + 1);
    const auto applies = [](std::string_view key) {
      return key == "$ref" || key == "const" || key == "enum" || key == "allOf" || key == "anyOf" ||
             key == "oneOf";
    };
    for (const bool wanted : {false, true}) {
      for (auto& [key, value] : schema) {
        if (applies(key) == wanted) ordered.emplace(key, std::move(value));
      }
    }
    ordered["$at"] = place.pointer;
    return ordered;
  }

  Result<> list(const json::value& value, std::string_view written, Node& node, std::string_view key) {
    const auto* elements = value.if_array();
    if (elements == nullptr) return report_.invalid(node.at(key), key, "it is a list of schemas");
    json::array out;
    for (std::size_t i = 0; i < elements->size(); ++i) {
      const auto& element = (*elements)[i];
      GEZEL_TRY(auto made, schema(element, below(node.place, pointer_to(node.at(key), std::to_string(i)))));
      out.push_back(std::move(made));
    }
    node.out[written] = std::move(out);
    return {};
  }

  Result<std::string> translate(std::string_view pattern) {
    GEZEL_TRY(const auto tree, parse_pattern(pattern));
    return pattern_for_constraint(tree);
  }

  Result<> keyword(std::string_view key, const json::value& value, Node& node) {
    const auto* known = find_keyword(key);
    if (known != nullptr)
      return known->handler == nullptr ? Result<>() : (this->*known->handler)(value, key, node);
    if (!key.starts_with("x-")) report_.warn(node.at(key), "is no keyword of JSON Schema and is ignored");
    return {};
  }

  SchemaReferences references_;
  SchemaReport& report_;
  const json::value& root_;
  bool siblings_of_ref_count_ = true;
  bool items_may_be_list_ = true;
  std::size_t nodes_ = 0;
  std::map<std::string, std::string> names_;  // pointer to name of the definition
  std::deque<std::pair<std::string, SchemaReferences::Target>> todo_;
  std::set<const json::object*> free_keys_;
};

const std::vector<Keyword> kKeywords = {
    {"type", KeywordUse::enforced, &Walker::type},
    {"enum", KeywordUse::enforced, &Walker::values, "numbers up to 2^53"},
    {"const", KeywordUse::enforced, &Walker::values, "numbers up to 2^53"},

    {"minimum", KeywordUse::enforced, &Walker::number_bound},
    {"maximum", KeywordUse::enforced, &Walker::number_bound},
    {"exclusiveMinimum", KeywordUse::enforced, &Walker::number_bound, "also as the flag of draft 4"},
    {"exclusiveMaximum", KeywordUse::enforced, &Walker::number_bound, "also as the flag of draft 4"},
    {"multipleOf", KeywordUse::enforced, &Walker::multiple_of, "up to nine digits"},

    {"minLength", KeywordUse::enforced, &Walker::count},
    {"maxLength", KeywordUse::enforced, &Walker::count},
    {"pattern", KeywordUse::partly, &Walker::pattern,
     "without look-around, back-references, word boundaries and flags; '^' and '$' at the edges"},
    {"format", KeywordUse::partly, &Walker::format,
     "date-time, date, time, duration, email, hostname, ipv4, ipv6, uuid, uri; without 'pattern' beside it "
     "also "
     "uri-reference, uri-template, json-pointer, relative-json-pointer; others are ignored with a warning"},

    {"items", KeywordUse::enforced, &Walker::items},
    {"prefixItems", KeywordUse::enforced, &Walker::prefix_items},
    {"additionalItems", KeywordUse::enforced, nullptr, "beside a list of `items`"},  // read with "items"
    {"minItems", KeywordUse::enforced, &Walker::min_items},
    {"maxItems", KeywordUse::enforced, &Walker::count},
    {"uniqueItems", KeywordUse::partly, &Walker::unique_items, "`false`, or with `maxItems` of at most 1"},
    {"contains", KeywordUse::partly, &Walker::contains, "`true`, or with `minContains` of 0"},
    {"minContains", KeywordUse::partly, nullptr, "0"},  // read with "contains"
    {"maxContains", KeywordUse::refused, nullptr},
    {"unevaluatedItems", KeywordUse::partly, &Walker::unevaluated,
     "where no keyword applies whole schemas in place"},

    {"properties", KeywordUse::enforced, &Walker::properties, "in the order of the schema"},
    {"required", KeywordUse::enforced, &Walker::required},
    {"additionalProperties", KeywordUse::enforced, &Walker::additional_properties},
    {"patternProperties", KeywordUse::partly, &Walker::properties, "patterns that no key can match together"},
    {"minProperties", KeywordUse::partly, &Walker::property_count,
     "where all named properties are required, or 1"},
    {"maxProperties", KeywordUse::partly, &Walker::property_count,
     "where all named properties are required, or 1"},
    {"propertyNames", KeywordUse::refused, &Walker::property_names, "use `patternProperties`"},
    {"unevaluatedProperties", KeywordUse::partly, &Walker::unevaluated,
     "where no keyword applies whole schemas in place"},
    {"dependentRequired", KeywordUse::refused, &Walker::dependency, "use `anyOf`"},
    {"dependentSchemas", KeywordUse::refused, &Walker::dependency, "use `anyOf`"},
    {"dependencies", KeywordUse::refused, &Walker::dependency, "use `anyOf`"},

    {"allOf", KeywordUse::enforced, &Walker::all_of},
    {"anyOf", KeywordUse::enforced, &Walker::options},
    {"oneOf", KeywordUse::partly, &Walker::options,
     "options that cannot hold together: of other types, or with a required property of other constants"},
    {"not", KeywordUse::partly, &Walker::negation, "of `type` alone"},
    {"if", KeywordUse::refused, &Walker::condition, "use `anyOf`"},
    {"then", KeywordUse::refused, nullptr},  // read with "if"
    {"else", KeywordUse::refused, nullptr},

    {"$ref", KeywordUse::partly, &Walker::reference,
     "inside the schema; recursion through properties and elements"},
    {"$dynamicRef", KeywordUse::refused, &Walker::dynamic_reference, "use `$ref`"},
    {"$recursiveRef", KeywordUse::refused, &Walker::dynamic_reference, "use `$ref`"},

    {"$schema", KeywordUse::annotation, nullptr,
     "tells the draft: until draft 7 nothing counts beside `$ref`"},
    {"$id", KeywordUse::annotation, nullptr, "references to it are followed"},
    {"id", KeywordUse::annotation, nullptr},
    {"$anchor", KeywordUse::annotation, nullptr, "references to it are followed"},
    {"$dynamicAnchor", KeywordUse::annotation, nullptr},
    {"$recursiveAnchor", KeywordUse::annotation, nullptr},
    {"$vocabulary", KeywordUse::annotation, nullptr},
    {"$comment", KeywordUse::annotation, nullptr},
    {"$defs", KeywordUse::annotation, nullptr},
    {"definitions", KeywordUse::annotation, nullptr},
    {"title", KeywordUse::annotation, nullptr},
    {"description", KeywordUse::annotation, nullptr},
    {"markdownDescription", KeywordUse::annotation, nullptr},
    {"default", KeywordUse::annotation, nullptr},
    {"deprecated", KeywordUse::annotation, nullptr},
    {"readOnly", KeywordUse::annotation, nullptr},
    {"writeOnly", KeywordUse::annotation, nullptr},
    {"example", KeywordUse::annotation, nullptr},
    {"examples", KeywordUse::annotation, nullptr},
    {"contentEncoding", KeywordUse::annotation, nullptr},
    {"contentMediaType", KeywordUse::annotation, nullptr},
    {"contentSchema", KeywordUse::annotation, nullptr},
    {"discriminator", KeywordUse::annotation, nullptr},
    {"externalDocs", KeywordUse::annotation, nullptr},
    {"strict", KeywordUse::annotation, nullptr},
};

}  // namespace

std::vector<KeywordInfo> known_keywords() {
  std::vector<KeywordInfo> all;
  for (const auto& keyword : kKeywords) all.push_back({keyword.name, keyword.use, keyword.note});
  return all;
}

Result<WalkedSchema> walk_schema(const json::value& schema, SchemaMode mode, const SchemaLimits& limits) {
  const auto size = json::serialize(schema).size();
  if (size > limits.bytes) {
    return fail(ErrorKind::too_large, "schema-unsupported",
                fmt::format("The schema has {} bytes; {} are allowed. Make it smaller.", size, limits.bytes));
  }
  SchemaReport report(mode, limits);
  Walker walker(schema, report);
  GEZEL_TRY(auto walked, walker.run());
  GEZEL_CHECK(finish_schema(walked, report));
  walked.warnings = report.take_warnings();
  return walked;
}

}  // namespace gezel::grammar
