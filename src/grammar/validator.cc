// Interprets the schema over the value. Every keyword answers yes, no or perhaps; "perhaps" is what cannot be
// judged, and it is carried through `not`, `anyOf` and `oneOf`, so that only what is certain makes a value
// invalid.
#include "grammar/validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "grammar/char_set.h"
#include "grammar/formats.h"
#include "grammar/json_compare.h"
#include "grammar/pattern.h"
#include "grammar/schema_parts.h"

namespace gezel::grammar {

namespace {

constexpr int kMostDepth = 300;  // schemas inside schemas, references followed
constexpr std::size_t kMostUnjudged = 16;

enum class Truth { no, perhaps, yes };
Truth both(Truth a, Truth b) {
  return std::min(a, b);
}
Truth either(Truth a, Truth b) {
  return std::max(a, b);
}
Truth opposite(Truth a) {
  return a == Truth::yes ? Truth::no : a == Truth::no ? Truth::yes : Truth::perhaps;
}
Truth truth(bool holds) {
  return holds ? Truth::yes : Truth::no;
}

// Which parts of the value some keyword looked at; "unevaluated..." is about the others.
struct Evaluated {
  std::set<std::string, std::less<>> members;
  std::set<std::size_t> elements;
  void add(const Evaluated& other) {
    members.insert(other.members.begin(), other.members.end());
    elements.insert(other.elements.begin(), other.elements.end());
  }
};

struct Value {
  const json::value& json;
  std::string pointer;
  Value member(std::string_view key) const { return {json.get_object().at(key), pointer_to(pointer, key)}; }
  Value element(std::size_t i) const { return {json.get_array()[i], pointer_to(pointer, std::to_string(i))}; }
};

std::string_view type_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "boolean";
    case json::kind::string:
      return "string";
    case json::kind::array:
      return "array";
    case json::kind::object:
      return "object";
    default:
      return is_whole(value) ? "integer" : "number";
  }
}

std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

struct Validator::Impl {
  using Object = json::object;

  explicit Impl(json::value given) : schema(std::move(given)), references(schema) {
    const auto* object = schema.if_object();
    const auto draft = object == nullptr ? std::string() : string_or(*object, "$schema");
    for (const auto* old : {"draft-03", "draft-04", "draft-06", "draft-07"}) {
      if (draft.find(old) != std::string::npos) siblings_of_ref_count = false;
    }
    items_may_be_list = draft.find("2020-12") == std::string::npos;
    tracks_evaluated = json::serialize(schema).find("\"unevaluated") != std::string::npos;
  }

  Verdict check(const json::value& instance) {
    verdict = {};
    work = 0;
    Evaluated evaluated;
    verdict.valid = judge(schema, {.resource = &schema}, {instance, ""}, evaluated, true) != Truth::no;
    if (verdict.valid) verdict.message = verdict.instance = verdict.keyword = {};
    return std::move(verdict);
  }

  struct Here {
    const Object& schema;
    const SchemaPlace& place;
    const Value& value;
    Evaluated& evaluated;
    bool loud;
    const json::value* get(std::string_view key) const { return schema.if_contains(key); }
  };

  // ---- what is found

  Truth unjudged(const SchemaPlace& place, std::string_view key, std::string_view why) {
    const auto text = fmt::format("#{}: {}", pointer_to(place.pointer, key), why);
    if (verdict.unjudged.size() < kMostUnjudged &&
        std::ranges::find(verdict.unjudged, text) == verdict.unjudged.end()) {
      verdict.unjudged.push_back(text);
    }
    return Truth::perhaps;
  }

  // Remembers the first violation; `loud` is off where a violation does not make the value invalid.
  Truth result(Truth found, bool loud, const SchemaPlace& place, std::string_view key, const Value& value,
               std::string_view wanted) {
    if (found == Truth::no && loud && verdict.message.empty()) {
      verdict.instance = value.pointer;
      verdict.keyword = pointer_to(place.pointer, key);
      verdict.message = fmt::format("the value at #{} ({}) violates '{}': {}", value.pointer,
                                    type_name(value.json), key, wanted);
    }
    return found;
  }

  // ---- one schema

  Truth judge(const json::value& part, SchemaPlace place, const Value& value, Evaluated& evaluated,
              bool loud) {
    if (part.is_bool())
      return result(truth(part.get_bool()), loud, place, "", value, "nothing is allowed here");
    const auto* object = part.if_object();
    if (object == nullptr) return unjudged(place, "", "no schema");
    if (++work > kMostWork) return unjudged(place, "", "the check would cost too much");
    if (++place.depth > kMostDepth) return unjudged(place, "", "references lead too deep");
    if (references.is_resource(part)) place.resource = &part;

    // Its own: a schema does not see what the schemas beside it looked at.
    Evaluated own;
    Here here{*object, place, value, own, loud};
    const auto all = keywords(here);
    if (tracks_evaluated) evaluated.add(own);
    return all;
  }

  Truth keywords(Here& here) {
    if (here.get("$ref") != nullptr && !siblings_of_ref_count) return reference(here, "$ref");
    Truth all = Truth::yes;
    for (const auto part_of : {&Impl::in_place, &Impl::any_type, &Impl::number, &Impl::string, &Impl::array,
                               &Impl::members, &Impl::unevaluated}) {
      all = both(all, (this->*part_of)(here));
      if (all == Truth::no) return all;
    }
    return all;
  }

  SchemaPlace below(const Here& here, std::string_view key, std::string_view inner = {}) const {
    SchemaPlace place = here.place;
    place.pointer = pointer_to(place.pointer, key);
    if (!inner.empty()) place.pointer = pointer_to(place.pointer, inner);
    return place;
  }

  Truth say(const Here& here, std::string_view key, Truth found, std::string_view wanted) {
    return result(found, here.loud, here.place, key, here.value, wanted);
  }

  // ---- keywords that apply whole schemas to the same value

  Truth reference(Here& here, std::string_view key) {
    const auto* text = here.get(key)->if_string();
    const auto target = text == nullptr ? std::nullopt : references.resolve(*text, here.place);
    if (!target) return unjudged(here.place, key, "the reference leads out of the schema");
    // A reference that leads back to itself with the same value says nothing about the value.
    const std::pair followed(target->schema, &here.value.json);
    if (std::ranges::find(following, followed) != following.end())
      return unjudged(here.place, key, "the reference leads to itself");
    following.push_back(followed);
    SchemaPlace place = target->place;
    place.depth = here.place.depth;
    const auto found = judge(*target->schema, place, here.value, here.evaluated, here.loud);
    following.pop_back();
    return found;
  }

  Truth in_place(Here& here) {
    Truth all = Truth::yes;
    if (here.get("$ref") != nullptr) all = both(all, reference(here, "$ref"));
    for (const auto* key : {"$dynamicRef", "$recursiveRef"}) {
      if (here.get(key) != nullptr)
        all = both(all, unjudged(here.place, key, "dynamic references are not followed"));
    }
    if (const auto* list = array_at(here.schema, "allOf")) {
      for (std::size_t i = 0; i < list->size() && all != Truth::no; ++i) {
        all = both(all, judge((*list)[i], below(here, "allOf", std::to_string(i)), here.value, here.evaluated,
                              here.loud));
      }
    }
    if (all == Truth::no) return all;
    all = both(all, any_of(here));
    if (all == Truth::no) return all;
    all = both(all, one_of(here));
    if (const auto* negated = here.get("not"); negated != nullptr && all != Truth::no) {
      Evaluated ignored;
      const auto found = opposite(judge(*negated, below(here, "not"), here.value, ignored, false));
      all = both(all, say(here, "not", found, "the schema in it must not hold"));
    }
    if (all == Truth::no) return all;
    return both(all, both(condition(here), dependent(here)));
  }

  Truth any_of(Here& here) {
    const auto* list = array_at(here.schema, "anyOf");
    if (list == nullptr) return Truth::yes;
    Truth any = Truth::no;
    for (std::size_t i = 0; i < list->size(); ++i) {
      Evaluated inside;
      const auto found =
          judge((*list)[i], below(here, "anyOf", std::to_string(i)), here.value, inside, false);
      if (found != Truth::no) here.evaluated.add(inside);
      any = either(any, found);
    }
    return say(here, "anyOf", any, "none of the options holds");
  }

  Truth one_of(Here& here) {
    const auto* list = array_at(here.schema, "oneOf");
    if (list == nullptr) return Truth::yes;
    int certain = 0;
    int possible = 0;
    for (std::size_t i = 0; i < list->size(); ++i) {
      Evaluated inside;
      const auto found =
          judge((*list)[i], below(here, "oneOf", std::to_string(i)), here.value, inside, false);
      if (found != Truth::no) here.evaluated.add(inside);
      certain += found == Truth::yes ? 1 : 0;
      possible += found == Truth::perhaps ? 1 : 0;
    }
    const auto found = certain > 1 || certain + possible == 0 ? Truth::no
                       : certain == 1 && possible == 0        ? Truth::yes
                                                              : Truth::perhaps;
    return say(here, "oneOf", found,
               certain > 1 ? "more than one of the options holds" : "none of the options holds");
  }

  Truth condition(Here& here) {
    const auto* when = here.get("if");
    if (when == nullptr) return Truth::yes;
    Evaluated inside;
    const auto holds = judge(*when, below(here, "if"), here.value, inside, false);
    if (holds != Truth::no) here.evaluated.add(inside);
    const auto branch = [&](const char* key) {
      const auto* schema_of_branch = here.get(key);
      if (schema_of_branch == nullptr) return Truth::yes;
      return judge(*schema_of_branch, below(here, key), here.value, here.evaluated,
                   here.loud && holds != Truth::perhaps);
    };
    if (holds == Truth::yes) return branch("then");
    if (holds == Truth::no) return branch("else");
    const auto then = branch("then");
    const auto otherwise = branch("else");
    return then == otherwise ? then : Truth::perhaps;
  }

  Truth dependent(Here& here) {
    const auto* object = here.value.json.if_object();
    if (object == nullptr) return Truth::yes;
    Truth all = Truth::yes;
    for (const auto* key : {"dependentRequired", "dependentSchemas", "dependencies"}) {
      const auto* rules = object_at(here.schema, key);
      if (rules == nullptr) continue;
      for (const auto& [name, rule] : *rules) {
        if (!object->contains(name)) continue;
        if (const auto* names = rule.if_array()) {
          const bool there = std::ranges::all_of(
              *names, [&](const auto& n) { return !n.is_string() || object->contains(n.get_string()); });
          all = both(all, say(here, key, truth(there),
                              fmt::format("'{}' requires other properties", std::string_view(name))));
        } else {
          all = both(all, judge(rule, below(here, key, name), here.value, here.evaluated, here.loud));
        }
      }
    }
    return all;
  }

  // ---- any type

  Truth any_type(Here& here) {
    const auto& value = here.value.json;
    Truth all = Truth::yes;
    if (const auto* type = here.get("type")) {
      const auto is = [&](const json::value& name) {
        if (!name.is_string()) return false;
        const std::string_view wanted = name.get_string();
        return wanted == type_name(value) || (wanted == "number" && value.is_number());
      };
      const bool fits = type->is_array() ? std::ranges::any_of(type->get_array(), is) : is(*type);
      all = both(all, say(here, "type", truth(fits), fmt::format("{} is wanted", json::serialize(*type))));
    }
    if (const auto* wanted = here.get("const")) {
      all = both(all, say(here, "const", truth(json_equal(value, *wanted)), "it is another value"));
    }
    if (const auto* list = array_at(here.schema, "enum")) {
      work += list->size();
      const bool listed = std::ranges::any_of(*list, [&](const auto& one) { return json_equal(one, value); });
      all = both(all, say(here, "enum", truth(listed), "it is none of the listed values"));
    }
    return all;
  }

  // ---- numbers

  Truth number(Here& here) {
    const auto& value = here.value.json;
    if (!value.is_number()) return Truth::yes;
    Truth all = Truth::yes;
    const auto flag = [&](const char* key) { return bool_or(here.schema, key, false); };
    const auto bound = [&](const char* key, auto holds) {
      const auto* limit = here.get(key);
      if (limit == nullptr || !limit->is_number()) return;
      all = both(all, say(here, key, truth(holds(compare_numbers(value, *limit))),
                          fmt::format("the bound is {}", json::serialize(*limit))));
    };
    bound("minimum", [&](int order) { return flag("exclusiveMinimum") ? order > 0 : order >= 0; });
    bound("maximum", [&](int order) { return flag("exclusiveMaximum") ? order < 0 : order <= 0; });
    bound("exclusiveMinimum", [](int order) { return order > 0; });
    bound("exclusiveMaximum", [](int order) { return order < 0; });
    if (const auto* step = here.get("multipleOf");
        step != nullptr && step->is_number() && step->to_number<double>() > 0) {
      const auto fits = is_multiple(value, *step);
      all =
          both(all, fits ? say(here, "multipleOf", truth(*fits), fmt::format("of {}", json::serialize(*step)))
                         : unjudged(here.place, "multipleOf", "the number has too many digits"));
    }
    return all;
  }

  // ---- strings

  // "min..." or "max..." of a count.
  Truth counted(Here& here, const char* key, std::uint64_t count, bool upper) {
    const auto* limit = here.get(key);
    if (limit == nullptr || !limit->is_number()) return Truth::yes;
    const int order = compare_numbers(json::value(count), *limit);
    return say(here, key, truth(upper ? order <= 0 : order >= 0),
               fmt::format("{} where {} is the limit", count, json::serialize(*limit)));
  }

  const Result<PatternMatcher>& matcher_of(std::string_view pattern) {
    auto found = patterns.find(pattern);
    if (found == patterns.end()) {
      auto tree = parse_pattern(pattern);
      found = patterns.emplace(pattern, tree ? PatternMatcher::create(*tree) : std::unexpected(tree.error()))
                  .first;
    }
    return found->second;
  }

  Truth matches(const Here& here, std::string_view key, std::string_view pattern, std::string_view text) {
    const auto& matcher = matcher_of(pattern);
    if (!matcher) return unjudged(here.place, key, matcher.error().message);
    work += text.size();
    const auto found = matcher->found_in(text);
    if (!found) return unjudged(here.place, key, found.error().message);
    return truth(*found);
  }

  Truth string(Here& here) {
    const auto* text = here.value.json.if_string();
    if (text == nullptr) return Truth::yes;
    const auto length = length_of(*text);
    Truth all = both(counted(here, "minLength", length, false), counted(here, "maxLength", length, true));
    if (const auto* pattern = here.get("pattern"); pattern != nullptr && pattern->is_string()) {
      all = both(all, say(here, "pattern", matches(here, "pattern", pattern->get_string(), *text),
                          "the text does not match"));
    }
    if (const auto* format = here.get("format"); format != nullptr && format->is_string()) {
      if (const auto fits = has_format(format->get_string(), *text)) {
        all = both(all, say(here, "format", truth(*fits),
                            fmt::format("it is no {}", std::string_view(format->get_string()))));
      }
    }
    return all;
  }

  // ---- arrays

  Truth array(Here& here) {
    const auto* list = here.value.json.if_array();
    if (list == nullptr) return Truth::yes;
    Truth all =
        both(counted(here, "minItems", list->size(), false), counted(here, "maxItems", list->size(), true));
    const auto* items = here.get("items");
    const bool listed = items != nullptr && items->is_array() && items_may_be_list;
    const auto* first = listed ? &items->get_array() : array_at(here.schema, "prefixItems");
    const char* rest_key = listed ? "additionalItems" : "items";
    const auto* rest = here.get(rest_key);
    for (std::size_t i = 0; i < list->size() && all != Truth::no; ++i) {
      const bool in_front = first != nullptr && i < first->size();
      const auto* wanted = in_front ? &(*first)[i] : rest;
      if (wanted == nullptr) break;
      Evaluated inside;
      const auto place =
          in_front ? below(here, listed ? "items" : "prefixItems", std::to_string(i)) : below(here, rest_key);
      all = both(all, judge(*wanted, place, here.value.element(i), inside, here.loud));
      if (tracks_evaluated) here.evaluated.elements.insert(i);
    }
    if (all == Truth::no) return all;
    if (bool_or(here.schema, "uniqueItems", false)) all = both(all, unique(here, *list));
    return both(all, contains(here, *list));
  }

  Truth unique(Here& here, const json::array& list) {
    work += list.size() * list.size() / 2;
    if (work > kMostWork) return unjudged(here.place, "uniqueItems", "the check would cost too much");
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t k = i + 1; k < list.size(); ++k) {
        if (json_equal(list[i], list[k]))
          return say(here, "uniqueItems", Truth::no, fmt::format("elements {} and {} are equal", i, k));
      }
    }
    return Truth::yes;
  }

  Truth contains(Here& here, const json::array& list) {
    const auto* wanted = here.get("contains");
    if (wanted == nullptr) return Truth::yes;
    std::uint64_t certain = 0;
    std::uint64_t possible = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      Evaluated inside;
      const auto found = judge(*wanted, below(here, "contains"), here.value.element(i), inside, false);
      if (found == Truth::no) continue;
      here.evaluated.elements.insert(i);
      found == Truth::yes ? ++certain : ++possible;
    }
    const auto least = static_cast<std::uint64_t>(std::max(0.0, number_or(here.schema, "minContains", 1)));
    const auto most = number_or(here.schema, "maxContains", HUGE_VAL);
    const auto enough = certain >= least              ? Truth::yes
                        : certain + possible >= least ? Truth::perhaps
                                                      : Truth::no;
    const auto few = static_cast<double>(certain) > most              ? Truth::no
                     : static_cast<double>(certain + possible) > most ? Truth::perhaps
                                                                      : Truth::yes;
    return both(say(here, "contains", enough, "too few elements fit"),
                say(here, "maxContains", few, "too many elements fit"));
  }

  // ---- objects

  Truth members(Here& here) {
    const auto* object = here.value.json.if_object();
    if (object == nullptr) return Truth::yes;
    Truth all = both(counted(here, "minProperties", object->size(), false),
                     counted(here, "maxProperties", object->size(), true));
    if (const auto* names = array_at(here.schema, "required")) {
      for (const auto& name : *names) {
        if (!name.is_string() || object->contains(name.get_string())) continue;
        all = both(all, say(here, "required", Truth::no,
                            fmt::format("'{}' is missing", std::string_view(name.get_string()))));
      }
    }
    const auto* names = here.get("propertyNames");
    for (const auto& member : *object) {
      if (all == Truth::no) return all;
      if (names != nullptr) {
        const json::value name(member.key());
        Evaluated ignored;
        all = both(
            all, judge(*names, below(here, "propertyNames"), {name, here.value.pointer}, ignored, here.loud));
      }
      all = both(all, member_of(here, member.key()));
    }
    return all;
  }

  Truth member_of(Here& here, std::string_view name) {
    const auto value = here.value.member(name);
    Truth all = Truth::yes;
    Truth known = Truth::no;  // some keyword is about this member
    Evaluated ignored;
    if (const auto* properties = object_at(here.schema, "properties")) {
      if (const auto* wanted = properties->if_contains(name)) {
        known = Truth::yes;
        all = both(all, judge(*wanted, below(here, "properties", name), value, ignored, here.loud));
      }
    }
    if (const auto* patterns_of = object_at(here.schema, "patternProperties")) {
      for (const auto& [pattern, wanted] : *patterns_of) {
        const auto fits = matches(here, "patternProperties", pattern, name);
        known = either(known, fits);
        if (fits == Truth::no) continue;
        const auto found = judge(wanted, below(here, "patternProperties", pattern), value, ignored,
                                 here.loud && fits == Truth::yes);
        all = both(all, fits == Truth::yes ? found : std::max(found, Truth::perhaps));
      }
    }
    if (const auto* more = here.get("additionalProperties"); more != nullptr && known != Truth::yes) {
      const auto found =
          judge(*more, below(here, "additionalProperties"), value, ignored, here.loud && known == Truth::no);
      all = both(all, known == Truth::no ? found : std::max(found, Truth::perhaps));
      known = Truth::yes;
    }
    if (known != Truth::no && tracks_evaluated) here.evaluated.members.emplace(name);
    return all;
  }

  // ---- what is left

  Truth unevaluated(Here& here) {
    Truth all = Truth::yes;
    if (const auto* wanted = here.get("unevaluatedItems"); wanted != nullptr && here.value.json.is_array()) {
      for (std::size_t i = 0; i < here.value.json.get_array().size(); ++i) {
        if (!here.evaluated.elements.insert(i).second) continue;
        Evaluated ignored;
        all = both(
            all, judge(*wanted, below(here, "unevaluatedItems"), here.value.element(i), ignored, here.loud));
      }
    }
    if (const auto* wanted = here.get("unevaluatedProperties");
        wanted != nullptr && here.value.json.is_object()) {
      for (const auto& member : here.value.json.get_object()) {
        if (!here.evaluated.members.emplace(member.key()).second) continue;
        Evaluated ignored;
        all = both(all, judge(*wanted, below(here, "unevaluatedProperties"), here.value.member(member.key()),
                              ignored, here.loud));
      }
    }
    return all;
  }

  json::value schema;
  SchemaReferences references;  // refers to `schema`
  bool siblings_of_ref_count = true;
  bool items_may_be_list = true;
  bool tracks_evaluated = false;  // some keyword asks what the others looked at
  std::map<std::string, Result<PatternMatcher>, std::less<>> patterns;
  std::vector<std::pair<const json::value*, const json::value*>>
      following;  // schema and value of open references
  Verdict verdict;
  std::uint64_t work = 0;
};

Validator::Validator(json::value schema) : impl_(std::make_unique<Impl>(std::move(schema))) {}
Validator::~Validator() = default;
Validator::Validator(Validator&&) noexcept = default;
Validator& Validator::operator=(Validator&&) noexcept = default;

Verdict Validator::check(const json::value& instance) {
  return impl_->check(instance);
}

}  // namespace gezel::grammar
