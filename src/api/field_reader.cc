#include "api/field_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace gezel::api {
namespace {

std::string describe(Range range) {
  const bool low = std::isfinite(range.low);
  const bool high = std::isfinite(range.high);
  if (low && high) {
    return range.above_low ? fmt::format("above {} and at most {}", range.low, range.high)
                           : fmt::format("from {} to {}", range.low, range.high);
  }
  if (low) return fmt::format("{} {}", range.above_low ? "above" : "at least", range.low);
  if (high) return fmt::format("at most {}", range.high);
  return "finite";
}

}  // namespace

void Problems::add(std::string path, std::string problem) {
  if (count_ == 0) first_path_ = path;
  if (count_ < kListed) {
    if (count_ > 0) text_ += "; ";
    text_ += path.empty() ? problem : fmt::format("{}: {}", path, problem);
  }
  ++count_;
}

ApiError Problems::to_error() const {
  std::string message = text_;
  if (count_ > kListed) message += fmt::format("; and {} more", count_ - kListed);
  return invalid_request("invalid_body", std::move(message), first_path_);
}

std::string_view kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "unknown";
}

std::string excerpt(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  // Back to the start of the character that the cut would split.
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return std::string(text.substr(0, limit)) + "...";
}

ApiResult<json::object> parse_body(std::string_view text) {
  auto parsed = parse_json(text);
  if (!parsed) return std::unexpected(invalid_request(parsed.error().code, parsed.error().message));
  if (auto* object = parsed->if_object()) return std::move(*object);
  return std::unexpected(invalid_request(
      "invalid_body", fmt::format("the body must be a JSON object, not {}", kind_name(*parsed))));
}

std::optional<std::int64_t> integral(const json::value& value) {
  if (const auto* number = value.if_int64()) return *number;
  if (value.is_uint64()) return std::numeric_limits<std::int64_t>::max();
  const auto* number = value.if_double();
  if (number == nullptr || !std::isfinite(*number) || *number != std::trunc(*number)) return std::nullopt;
  constexpr double kLimit = 9.2e18;
  if (*number >= kLimit) return std::numeric_limits<std::int64_t>::max();
  if (*number <= -kLimit) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(*number);
}

const json::value* FieldReader::field(std::string_view key) const {
  const auto* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string FieldReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

std::string FieldReader::path_of(std::string_view key, std::size_t index) const {
  return fmt::format("{}[{}]", path_of(key), index);
}

std::optional<bool> FieldReader::boolean(std::string_view key) const {
  const auto* value = field(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = value->if_bool()) return *flag;
  problem(key, fmt::format("must be a boolean, not {}", kind_name(*value)));
  return std::nullopt;
}

std::optional<std::string_view> FieldReader::string(std::string_view key) const {
  const auto* value = field(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = value->if_string()) return std::string_view(*text);
  problem(key, fmt::format("must be a string, not {}", kind_name(*value)));
  return std::nullopt;
}

std::optional<std::string_view> FieldReader::required_string(std::string_view key) const {
  if (field(key) == nullptr) {
    problem(key, "is required and must be a string");
    return std::nullopt;
  }
  const auto text = string(key);
  if (text && text->empty()) {
    problem(key, "must not be empty");
    return std::nullopt;
  }
  return text;
}

std::optional<double> FieldReader::number(std::string_view key, Range range) const {
  const auto* value = field(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    problem(key, fmt::format("must be a number, not {}", kind_name(*value)));
    return std::nullopt;
  }
  const auto number = value->to_number<double>();
  const bool low_ok = range.above_low ? number > range.low : number >= range.low;
  if (!std::isfinite(number) || !low_ok || number > range.high) {
    problem(key, fmt::format("must be {}, not {}", describe(range), number));
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view key, std::int64_t low,
                                                 std::int64_t high) const {
  const auto* value = field(key);
  if (value == nullptr) return std::nullopt;
  const auto number = integral(*value);
  if (!number) {
    problem(key, value->is_number() ? "must be an integer"
                                    : fmt::format("must be an integer, not {}", kind_name(*value)));
    return std::nullopt;
  }
  if (*number < low || *number > high) {
    constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
    problem(key, high == kMax ? fmt::format("must be at least {}, not {}", low, *number)
                              : fmt::format("must be from {} to {}, not {}", low, high, *number));
    return std::nullopt;
  }
  return number;
}

void FieldReader::only(std::span<const std::string_view> keys) const {
  for (const auto& member : object_) {
    const std::string_view key = member.key();
    if (std::ranges::find(keys, key) == keys.end())
      problem(excerpt(key), fmt::format("is not a member here; it may be {}", fmt::join(keys, " or ")));
  }
}

const json::object* FieldReader::object(std::string_view key) const {
  const auto* value = field(key);
  if (value == nullptr) return nullptr;
  if (const auto* object = value->if_object()) return object;
  problem(key, fmt::format("must be an object, not {}", kind_name(*value)));
  return nullptr;
}

const json::array* FieldReader::array(std::string_view key) const {
  const auto* value = field(key);
  if (value == nullptr) return nullptr;
  if (const auto* array = value->if_array()) return array;
  problem(key, fmt::format("must be an array, not {}", kind_name(*value)));
  return nullptr;
}

}  // namespace gezel::api
