// api/field_reader.h
//
// Strict reading of a client's JSON: every field of the wrong type or range becomes one problem with its
// path, and reading goes on, so that one answer names all of them. JSON null counts as absent.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "base/json.h"

namespace gezel::api {

class Problems {
 public:
  void add(std::string path, std::string problem);
  bool empty() const { return count_ == 0; }
  // invalid_body: "path: problem; path: problem". At most kListed are spelled out, the rest is counted.
  ApiError to_error() const;

  static constexpr std::size_t kListed = 32;

 private:
  std::string text_;
  std::string first_path_;
  std::size_t count_ = 0;
};

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;  // the lower bound itself is excluded
};

// One object of the body; `path` is "" for the body itself, else "messages[2]".
class FieldReader {
 public:
  FieldReader(const json::object& object, std::string path, Problems& problems)
      : object_(object), path_(std::move(path)), problems_(problems) {}

  // Absent and null give nothing, silently; a wrong type or range gives nothing and a problem.
  const json::value* field(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<double> number(std::string_view key, Range range) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  const json::object* object(std::string_view key) const;
  const json::array* array(std::string_view key) const;
  // A string that must be there and have at least one character.
  std::optional<std::string_view> required_string(std::string_view key) const;
  // Every other member is a problem. For objects where leaving a member out means more than naming it: a
  // misspelt one must not be taken for that.
  void only(std::span<const std::string_view> keys) const;

  std::string path_of(std::string_view key) const;
  std::string path_of(std::string_view key, std::size_t index) const;
  void problem(std::string_view key, std::string text) const { problems_.add(path_of(key), std::move(text)); }
  Problems& problems() const { return problems_; }
  const std::string& path() const { return path_; }

 private:
  const json::object& object_;
  std::string path_;
  Problems& problems_;
};

// A request's body, which must be a JSON object. Errors: those of parse_json(), `invalid_body`.
ApiResult<json::object> parse_body(std::string_view text);
// The value as an integer: also an integral number written with a fraction (1.0), and clamped where it
// exceeds 64 bits.
std::optional<std::int64_t> integral(const json::value& value);
// The beginning of a client's text for an error message: at most `limit` bytes, whole characters.
std::string excerpt(std::string_view text, std::size_t limit = 64);
// "a string", "an object", ... for messages.
std::string_view kind_name(const json::value& value);

}  // namespace gezel::api
