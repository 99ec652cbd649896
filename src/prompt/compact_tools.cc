#include "prompt/compact_tools.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace gezel::prompt {
namespace {

constexpr std::array<std::string_view, 6> kProse{
    "$comment", "default", "description", "examples", "markdownDescription", "title"};

// Where schemas stand inside a schema. Everything else (enum, const, required ...) is data and is not looked
// into.
enum class Holds { schema, list, map };
struct Place {
  std::string_view keyword;
  Holds holds;
};
constexpr std::array kPlaces{
    Place{"properties", Holds::map},
    Place{"patternProperties", Holds::map},
    Place{"$defs", Holds::map},
    Place{"definitions", Holds::map},
    Place{"dependentSchemas", Holds::map},
    Place{"dependencies", Holds::map},
    Place{"anyOf", Holds::list},
    Place{"oneOf", Holds::list},
    Place{"allOf", Holds::list},
    Place{"prefixItems", Holds::list},
    Place{"items", Holds::schema},  // a list in drafts before 2020-12
    Place{"additionalItems", Holds::schema},
    Place{"additionalProperties", Holds::schema},
    Place{"unevaluatedItems", Holds::schema},
    Place{"unevaluatedProperties", Holds::schema},
    Place{"propertyNames", Holds::schema},
    Place{"contains", Holds::schema},
    Place{"not", Holds::schema},
    Place{"if", Holds::schema},
    Place{"then", Holds::schema},
    Place{"else", Holds::schema},
};

// Recursion ends with the depth that the JSON reader allows.
void strip(json::value& schema) {
  if (!schema.is_object()) return;
  json::object& object = schema.get_object();
  json::object kept;
  for (auto& [name, value] : object) {
    if (std::ranges::find(kProse, std::string_view(name)) != kProse.end()) continue;
    const auto* place = std::ranges::find(kPlaces, std::string_view(name), &Place::keyword);
    if (place != kPlaces.end()) {
      if (place->holds == Holds::map && value.is_object()) {
        for (auto& member : value.get_object()) strip(member.value());
      } else if (value.is_array()) {
        for (json::value& item : value.get_array()) strip(item);
      } else if (place->holds == Holds::schema) {
        strip(value);
      }
    }
    kept.emplace(name, std::move(value));
  }
  object = std::move(kept);
}

bool ends_sentence(std::string_view text, std::size_t at) {
  if (text[at] == '\n' || text[at] == '\r') return true;
  const bool mark = text[at] == '.' || text[at] == '!' || text[at] == '?';
  return mark && (at + 1 == text.size() || std::string_view(" \t\r\n").contains(text[at + 1]));
}

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

}  // namespace

std::string first_sentence(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::size_t size = 0;
  while (size < text.size() && !ends_sentence(text, size)) ++size;
  const bool line_end = size < text.size() && (text[size] == '\n' || text[size] == '\r');
  text = text.substr(0, line_end ? size : std::min(size + 1, text.size()));
  std::size_t chars = 0, last = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!begins_character(text[at])) continue;
    if (++chars == kCompactDescriptionChars) last = at;
    if (chars > kCompactDescriptionChars) return std::string(text.substr(0, last)) + "…";
  }
  return std::string(text);
}

void compact(Tool& tool) {
  auto parsed = parse_json(tool.json);
  if (!parsed || !parsed->is_object()) return;
  json::value* function = parsed->get_object().if_contains("function");
  if (function == nullptr || !function->is_object()) return;
  json::object& body = function->get_object();
  if (json::value* description = body.if_contains("description"); description && description->is_string())
    *description = first_sentence(description->get_string());
  if (json::value* parameters = body.if_contains("parameters")) strip(*parameters);
  tool.json = to_json(*parsed);
}

}  // namespace gezel::prompt
