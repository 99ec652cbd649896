// base/json.h
//
// Reading JSON with errors that name the place. Boost.JSON keeps the order of keys, which prompts rely on:
// the same request must render to the same bytes.
#pragma once
#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gezel {

namespace json = boost::json;

// Nesting deeper than this is refused, here and in every reader of outside data.
inline constexpr int kMaxJsonDepth = 64;

// Parses UTF-8 JSON. On failure the message names the byte offset; codes `invalid_json` and `invalid_utf8`.
Result<json::value> parse_json(std::string_view text);

// One line, keys in their order, only what JSON requires is escaped.
std::string to_json(const json::value& value);

// Lenient readers for data of our own making (protocol frames, manifests): absent or of another type = the
// default.
std::string string_or(const json::object& object, std::string_view key, std::string_view fallback = {});
std::int64_t int_or(const json::object& object, std::string_view key, std::int64_t fallback);
double number_or(const json::object& object, std::string_view key, double fallback);
bool bool_or(const json::object& object, std::string_view key, bool fallback);
const json::object* object_at(const json::object& object,
                              std::string_view key);  // null when absent or no object
const json::array* array_at(const json::object& object,
                            std::string_view key);  // null when absent or no array

}  // namespace gezel
