#include "grammar/spaced_json.h"

#include <fmt/format.h>

namespace gezel::grammar {

std::string spaced_json(const json::value& value) {
  std::string text;
  if (const auto* array = value.if_array()) {
    for (const auto& element : *array) text += (text.empty() ? "" : ", ") + spaced_json(element);
    return "[" + text + "]";
  }
  if (const auto* object = value.if_object()) {
    for (const auto& [key, member] : *object) {
      text += (text.empty() ? "" : ", ") + json::serialize(json::string(key)) + ": " + spaced_json(member);
    }
    return "{" + text + "}";
  }
  // Boost writes 2.5E0.
  if (const auto* number = value.if_double()) return fmt::format("{}", *number);
  return json::serialize(value);
}

}  // namespace gezel::grammar
