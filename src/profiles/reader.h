// profiles/reader.h
//
// Strict reading of a profile's JSON. Whatever is wrong becomes a problem with its JSON pointer, the value
// and what would be right, and reading goes on, so that one look names everything. null counts as absent: in
// a user's file it takes a shipped member away. Internal to the module.
#pragma once
#include <fmt/format.h>

#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/profile.h"

namespace gezel::profiles {

class Reader {
 public:
  // `pointer` is where `object` stands in the file.
  Reader(const json::object& object, std::string pointer, std::string_view file,
         std::vector<Problem>& problems)
      : object_(object), pointer_(std::move(pointer)), file_(file), problems_(problems) {}

  // Every member must be one of these.
  void allow_only(std::span<const std::string_view> names) const;

  const json::value* member(std::string_view name) const;  // null: absent or JSON null
  std::optional<double> number(std::string_view name, double low, double high, bool above_low = false) const;
  std::optional<int> integer(std::string_view name, std::int64_t low, std::int64_t high) const;
  // Of 1 to `most` bytes; "" is allowed where `empty` is.
  std::optional<std::string> text(std::string_view name, std::size_t most, bool empty = false) const;
  std::optional<std::vector<std::string>> texts(std::string_view name, std::size_t most,
                                                std::size_t most_bytes) const;
  const json::object* object(std::string_view name) const;

  std::string pointer_to(std::string_view name) const;
  // "<pointer> is <value>; it must be <right>".
  void problem(std::string_view name, const json::value& value, std::string_view right) const;
  void complain(std::string pointer, std::string message) const;
  std::string_view file() const { return file_; }
  std::vector<Problem>& problems() const { return problems_; }

 private:
  const json::object& object_;
  const std::string pointer_;
  const std::string_view file_;
  std::vector<Problem>& problems_;
};

// The beginning of a value as JSON, for a message.
std::string shown(const json::value& value);

}  // namespace gezel::profiles
