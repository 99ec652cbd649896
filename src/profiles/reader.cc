#include "profiles/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace gezel::profiles {
namespace {

constexpr std::size_t kShownBytes = 60;

// RFC 6901: '~' and '/' of a name are written "~0" and "~1".
std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

// At most `most` bytes, without half a character at the end.
std::string beginning(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text + "...";
}

}  // namespace

std::string shown(const json::value& value) {
  // As people write numbers: 1.5, not 1.5E0.
  if (const auto* number = value.if_double()) return fmt::format("{}", *number);
  return beginning(to_json(value), kShownBytes);
}

void Reader::allow_only(std::span<const std::string_view> names) const {
  for (const auto& entry : object_) {
    const std::string_view name = entry.key();
    if (std::ranges::find(names, name) != names.end()) continue;
    complain(pointer_to(name), fmt::format("is not known here; known are: {}", fmt::join(names, ", ")));
  }
}

const json::value* Reader::member(std::string_view name) const {
  const auto* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<double> Reader::number(std::string_view name, double low, double high, bool above_low) const {
  const auto* value = member(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->to_number<double>();
    if ((above_low ? number > low : number >= low) && number <= high) return number;
  }
  problem(name, *value,
          above_low ? fmt::format("a number above {} and at most {}", low, high)
                    : fmt::format("a number from {} to {}", low, high));
  return std::nullopt;
}

std::optional<int> Reader::integer(std::string_view name, std::int64_t low, std::int64_t high) const {
  const auto* value = member(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->to_number<double>();
    if (number == std::trunc(number) && number >= static_cast<double>(low) &&
        number <= static_cast<double>(high))
      return static_cast<int>(number);
  }
  problem(name, *value, fmt::format("an integer from {} to {}", low, high));
  return std::nullopt;
}

std::optional<std::string> Reader::text(std::string_view name, std::size_t most, bool empty) const {
  const auto* value = member(name);
  if (value == nullptr) return std::nullopt;
  const auto* text = value->if_string();
  if (text != nullptr && text->size() <= most && (empty || !text->empty())) return std::string(*text);
  problem(name, *value, fmt::format("a text of {} to {} bytes", empty ? 0 : 1, most));
  return std::nullopt;
}

std::optional<std::vector<std::string>> Reader::texts(std::string_view name, std::size_t most,
                                                      std::size_t most_bytes) const {
  const auto* value = member(name);
  if (value == nullptr) return std::nullopt;
  const auto* list = value->if_array();
  if (list == nullptr || list->empty() || list->size() > most) {
    problem(name, *value, fmt::format("a list of 1 to {} texts", most));
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* text = (*list)[i].if_string();
    if (text != nullptr && !text->empty() && text->size() <= most_bytes) {
      out.emplace_back(*text);
    } else {
      complain(fmt::format("{}/{}", pointer_to(name), i),
               fmt::format("is {}; it must be a text of 1 to {} bytes", shown((*list)[i]), most_bytes));
    }
  }
  return out;
}

const json::object* Reader::object(std::string_view name) const {
  const auto* value = member(name);
  if (value == nullptr) return nullptr;
  if (const auto* object = value->if_object()) return object;
  problem(name, *value, "an object");
  return nullptr;
}

std::string Reader::pointer_to(std::string_view name) const {
  return beginning(fmt::format("{}/{}", pointer_, escaped(name)), 200);
}

void Reader::problem(std::string_view name, const json::value& value, std::string_view right) const {
  complain(pointer_to(name), fmt::format("is {}; it must be {}", shown(value), right));
}

void Reader::complain(std::string pointer, std::string message) const {
  message = pointer + " " + message;
  problems_.push_back({std::string(file_), std::move(pointer), std::move(message)});
}

}  // namespace gezel::profiles
