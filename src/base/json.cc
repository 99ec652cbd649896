#include "base/json.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace gezel {

Result<json::value> parse_json(std::string_view text) {
  // Checked first, so that the error can name the byte: the parser reports only that something was wrong.
  if (const auto at = find_invalid_utf8(text)) {
    return fail(ErrorKind::invalid, "invalid_utf8",
                fmt::format("the body is not valid UTF-8 at byte {}", *at));
  }
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  json::stream_parser parser({}, options);
  boost::system::error_code error;
  const std::size_t read = parser.write_some(text.data(), text.size(), error);
  if (!error && read < text.size()) {
    const std::size_t extra = text.find_first_not_of(" \t\r\n", read);
    if (extra != std::string_view::npos) {
      return fail(ErrorKind::invalid, "invalid_json",
                  fmt::format("unexpected text after the JSON value at byte {}", extra));
    }
  }
  if (!error) parser.finish(error);
  if (error) {
    return fail(ErrorKind::invalid, "invalid_json",
                fmt::format("the body is not valid JSON at byte {}: {}", read, error.message()));
  }
  return parser.release();
}

std::string to_json(const json::value& value) {
  return json::serialize(value);
}

std::string string_or(const json::object& object, std::string_view key, std::string_view fallback) {
  const auto* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return std::string(fallback);
  return std::string(value->get_string());
}

std::int64_t int_or(const json::object& object, std::string_view key, std::int64_t fallback) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return fallback;
  if (const auto* number = value->if_int64()) return *number;
  if (const auto* number = value->if_uint64(); number != nullptr && *number <= INT64_MAX) {
    return static_cast<std::int64_t>(*number);
  }
  return fallback;
}

double number_or(const json::object& object, std::string_view key, double fallback) {
  const auto* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) return fallback;
  return value->to_number<double>();
}

bool bool_or(const json::object& object, std::string_view key, bool fallback) {
  const auto* value = object.if_contains(key);
  return value != nullptr && value->is_bool() ? value->get_bool() : fallback;
}

const json::object* object_at(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

const json::array* array_at(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_array();
}

}  // namespace gezel
