#include "catalog/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace gezel::catalog {
namespace {

constexpr std::size_t kShownBytes = 60;

// The beginning of a value as JSON.
std::string shown(const json::value& value) {
  if (const auto* number = value.if_double()) return fmt::format("{}", *number);
  std::string text = to_json(value);
  if (text.size() <= kShownBytes) return text;
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

const json::value* Fields::member(std::string_view name) const {
  const auto* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string Fields::field(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void Fields::complain(std::string field, std::string_view what) const {
  std::string message = fmt::format("{}: {} {}", entry_, field, what);
  problems_.push_back({std::string(entry_), std::move(field), std::move(message)});
}

void Fields::wrong(std::string_view name, std::string_view right) const {
  const auto* value = member(name);
  complain(field(name),
           fmt::format("is {}; it must be {}", value == nullptr ? "absent" : shown(*value), right));
}

void Fields::missing(std::string_view name, std::string_view right) const {
  complain(field(name), fmt::format("is missing; it must be {}", right));
}

std::string Fields::text(std::string_view name, bool required) const {
  return text(
      name, required, [](std::string_view) { return true; },
      required ? "a text of at least one character" : "a text");
}

std::string Fields::text(std::string_view name, bool required, bool (*good)(std::string_view),
                         std::string_view right) const {
  const auto* value = member(name);
  if (value == nullptr) {
    if (required) missing(name, right);
    return {};
  }
  const auto* text = value->if_string();
  if (text == nullptr || text->size() > kMaxTextBytes || (required && text->empty()) || !good(*text)) {
    wrong(name, right);
    return {};
  }
  return std::string(*text);
}

std::string Fields::one_of(std::string_view name, std::initializer_list<std::string_view> words,
                           bool required) const {
  const auto* value = member(name);
  const std::string right = fmt::format("one of {}", fmt::join(words, ", "));
  if (value == nullptr) {
    if (required) missing(name, right);
    return {};
  }
  if (const auto* text = value->if_string()) {
    if (std::ranges::find(words, std::string_view(*text)) != words.end()) return std::string(*text);
  }
  wrong(name, right);
  return {};
}

std::optional<double> Fields::number(std::string_view name, double low, double high) const {
  const auto* value = member(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->to_number<double>();
    if (number >= low && number <= high) return number;
  }
  wrong(name, fmt::format("a number from {} to {}", low, high));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low,
                                            std::int64_t high) const {
  const auto* value = member(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = value->if_int64(); number != nullptr && *number >= low && *number <= high)
    return *number;
  if (const auto* number = value->if_double();
      number != nullptr && *number == std::trunc(*number) && *number >= static_cast<double>(low) &&
      *number <= static_cast<double>(high) && std::abs(*number) < 9e15)
    return static_cast<std::int64_t>(*number);
  wrong(name, high == std::numeric_limits<std::int64_t>::max()
                  ? fmt::format("an integer of at least {}", low)
                  : fmt::format("an integer from {} to {}", low, high));
  return std::nullopt;
}

Bytes Fields::size(std::string_view name, bool required) const {
  if (!has(name)) {
    if (required) missing(name, "a number of bytes above 0");
    return 0;
  }
  // Far above any model, and far below where sums of sizes could overflow.
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  return static_cast<Bytes>(integer(name, 1, kMost).value_or(0));
}

std::optional<bool> Fields::boolean(std::string_view name, bool required) const {
  const auto* value = member(name);
  if (value == nullptr) {
    if (required) missing(name, "true or false");
    return std::nullopt;
  }
  if (const auto* flag = value->if_bool()) return *flag;
  wrong(name, "true or false");
  return std::nullopt;
}

std::vector<std::string> Fields::texts(std::string_view name) const {
  std::vector<std::string> out;
  const auto* value = member(name);
  if (value == nullptr) return out;
  const auto* list = value->if_array();
  if (list == nullptr || list->size() > kMaxListed) {
    wrong(name, fmt::format("a list of at most {} texts", kMaxListed));
    return out;
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* text = (*list)[i].if_string();
    if (text != nullptr && !text->empty() && text->size() <= kMaxTextBytes) {
      out.emplace_back(*text);
    } else {
      complain(fmt::format("{}[{}]", field(name), i),
               fmt::format("is {}; it must be a text of at least one character", shown((*list)[i])));
    }
  }
  return out;
}

std::optional<Fields> Fields::object(std::string_view name, bool required) const {
  const auto* value = member(name);
  if (value == nullptr) {
    if (required) missing(name, "an object");
    return std::nullopt;
  }
  if (const auto* object = value->if_object()) return Fields(*object, field(name), entry_, problems_);
  wrong(name, "an object");
  return std::nullopt;
}

void Fields::each(std::string_view name, const std::function<void(const Fields&)>& visit) const {
  const auto* value = member(name);
  if (value == nullptr) return;
  const auto* list = value->if_array();
  if (list == nullptr || list->size() > kMaxListed) {
    wrong(name, fmt::format("a list of at most {} objects", kMaxListed));
    return;
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", field(name), i);
    if (const auto* object = (*list)[i].if_object()) {
      visit(Fields(*object, path, entry_, problems_));
    } else {
      complain(path, fmt::format("is {}; it must be an object", shown((*list)[i])));
    }
  }
}

}  // namespace gezel::catalog
