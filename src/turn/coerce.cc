#include "turn/coerce.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "turn/json_number.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text = text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower,
                            [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a + 32 == b); });
}

bool only_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// ^-?\d+(\.\d+)?$
bool is_plain_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return only_digits(text);
  return only_digits(text.substr(0, point)) && only_digits(text.substr(point + 1));
}

std::optional<json::value> read_number(std::string_view text, Types types) {
  if (!is_plain_number(text)) return std::nullopt;
  const std::size_t point = text.find('.');
  const bool whole =
      point == std::string_view::npos || text.find_first_not_of('0', point + 1) == std::string_view::npos;
  if ((types & kNumberType) == 0) {
    if (!whole) return std::nullopt;
    text = text.substr(0, point);
  }
  json::value number = parse_json_number(text);
  if (const double* real = number.if_double()) {
    // More digits than an integer can have are no integer; what no double can hold stays text.
    if ((types & kNumberType) == 0 || !std::isfinite(*real)) return std::nullopt;
  }
  return number;
}

bool is_container(const json::value& value) {
  return value.is_object() || value.is_array();
}

// The whole text as an object or array.
std::optional<json::value> read_container(std::string_view text, Types types) {
  // Cut: a text that lacks brackets is not completed, it is not clear where its end belongs.
  JsonRead read = read_json(text, {}, TextEnd::cut);
  if (read.status != JsonStatus::complete || (types_of(read.value) & types) == 0) return std::nullopt;
  if (!is_container(read.value)) return std::nullopt;
  std::string_view rest = trim(text.substr(read.consumed));
  if (read.fenced && rest == "```") rest = {};
  if (!rest.empty()) return std::nullopt;
  return std::move(read.value);
}

// The one value of `types` that the string spells.
std::optional<json::value> convert(std::string_view text, Types types) {
  if ((types & kNullType) != 0 && text == "null") return json::value(nullptr);
  if ((types & kBooleanType) != 0) {
    if (equals_ignoring_case(text, "true")) return json::value(true);
    if (equals_ignoring_case(text, "false")) return json::value(false);
  }
  if ((types & (kIntegerType | kNumberType)) != 0) {
    if (auto number = read_number(text, types)) return number;
  }
  if ((types & (kObjectType | kArrayType)) != 0) return read_container(text, types);
  return std::nullopt;
}

// `key` as one step of a JSON pointer.
std::string pointer_step(std::string_view key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

// Saves the pointer's text for most values.
bool may_change(const json::value& value, const SchemaPosition& position) {
  return (value.is_string() && (position.types & kStringType) == 0) ||
         (is_container(value) && !position.schemas.empty());
}

void coerce_array(json::array& array, const SchemaPosition& position, const std::string& field,
                  std::vector<Repair>& repairs) {
  // Elements behind every list of positions have the same schema.
  std::size_t listed = 0;
  for (const json::object* schema : position.schemas) {
    for (const std::string_view key : {"prefixItems", "items"}) {
      if (const auto* list = array_at(*schema, key)) listed = std::max(listed, list->size());
    }
  }
  SchemaPosition element;
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (i <= listed) element = element_position(position, i);
    if (may_change(array[i], element))
      coerce_value(array[i], element, field + "/" + std::to_string(i), repairs);
  }
}

void rename_keys(json::object& arguments, const ToolSchema& tool, std::vector<Repair>& repairs) {
  const auto target = [&](std::string_view key) {
    const std::string_view match = match_key(tool, key);
    return arguments.contains(match) ? key : match;
  };
  if (std::ranges::all_of(arguments,
                          [&](const auto& member) { return target(member.key()) == member.key(); })) {
    return;
  }
  json::object renamed;
  renamed.reserve(arguments.size());
  for (auto& member : arguments) {
    const std::string_view key = member.key();
    std::string_view name = target(key);
    if (renamed.contains(name)) name = key;  // two spellings of one key: the first has it
    if (name != key) {
      repairs.push_back({Repair::Kind::renamed, pointer_step(name), json::string(key), json::string(name)});
    }
    renamed.emplace(name, std::move(member.value()));
  }
  arguments = std::move(renamed);
}

}  // namespace

std::string_view match_key(const ToolSchema& tool, std::string_view key) {
  if (tool.keys.exact(key)) return key;
  const auto alike = tool.keys.alike(key);
  return alike ? std::string_view(tool.properties[*alike].name) : key;
}

void coerce_value(json::value& value, const SchemaPosition& position, const std::string& field,
                  std::vector<Repair>& repairs) {
  if (const auto* text = value.if_string(); text != nullptr && (position.types & kStringType) == 0) {
    auto converted = convert(*text, position.types);
    if (!converted) return;
    // What is inside a parsed container was not visible to the caller: one repair for all of it.
    std::vector<Repair> inner;
    coerce_value(*converted, position, field, inner);
    json::value from = std::move(value);
    value = *std::move(converted);
    repairs.push_back({Repair::Kind::converted, field, std::move(from), value});
    return;
  }
  if (position.schemas.empty()) return;
  if (auto* object = value.if_object()) {
    for (auto& member : *object) {
      const SchemaPosition inside = member_position(position, member.key());
      if (!may_change(member.value(), inside)) continue;
      coerce_value(member.value(), inside, field + pointer_step(member.key()), repairs);
    }
  } else if (auto* array = value.if_array()) {
    coerce_array(*array, position, field, repairs);
  }
}

std::vector<Repair> coerce_arguments(json::object& arguments, const ToolSchema& tool) {
  std::vector<Repair> repairs;
  rename_keys(arguments, tool, repairs);
  const SchemaPosition position = position_of(tool.parameters, tool.parameters);
  for (auto& member : arguments) {
    coerce_value(member.value(), member_position(position, member.key()), pointer_step(member.key()),
                 repairs);
  }
  return repairs;
}

json::value markup_value(std::string_view text, MarkupValue kind, const SchemaPosition& position) {
  if (kind == MarkupValue::trimmed_line) {
    if (text.starts_with("\r\n")) {
      text.remove_prefix(2);
    } else if (text.starts_with('\n')) {
      text.remove_prefix(1);
    }
    if (text.ends_with('\n')) {
      text.remove_suffix(1);
      if (text.ends_with('\r')) text.remove_suffix(1);
    }
  }
  if ((position.types & kStringType) != 0) return json::string(text);
  text = trim(text);
  if (equals_ignoring_case(text, "null")) return nullptr;
  json::value value = json::string(text);
  std::vector<Repair> unused;  // markup knows no types, so this is reading and no repair
  coerce_value(value, position, {}, unused);
  return value;
}

}  // namespace gezel::turn
