// catalog/fields.h
//
// Strict reading of catalog JSON. Whatever is wrong becomes a problem that names entry, field, value and what
// it must be, and reading goes on, so that one look names everything. null counts as absent; members that are
// not asked for are ignored (spec 60 section 2.1 rule 3). Internal to the module.
#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/item.h"

namespace gezel::catalog {

inline constexpr std::size_t kMaxListed = 4096;          // entries of any list in an item
inline constexpr std::size_t kMaxTextBytes = 64 * 1024;  // of any text: chat templates are the longest

class Fields {
 public:
  Fields(const json::object& object, std::string path, std::string_view entry, std::vector<Problem>& problems)
      : object_(object), path_(std::move(path)), entry_(entry), problems_(problems) {}

  const json::value* member(std::string_view name) const;  // null: absent or JSON null
  bool has(std::string_view name) const { return member(name) != nullptr; }

  // Absent is "", a problem when `required`. `right` and `good` say which texts are allowed.
  std::string text(std::string_view name, bool required = false) const;
  std::string text(std::string_view name, bool required, bool (*good)(std::string_view),
                   std::string_view right) const;
  std::string one_of(std::string_view name, std::initializer_list<std::string_view> words,
                     bool required = false) const;
  std::optional<double> number(std::string_view name, double low, double high) const;
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high) const;
  Bytes size(std::string_view name, bool required = true) const;  // > 0, 0 when absent
  std::optional<bool> boolean(std::string_view name, bool required = false) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::optional<Fields> object(std::string_view name, bool required = false) const;
  // Every element of an array of objects; absent is none.
  void each(std::string_view name, const std::function<void(const Fields&)>& visit) const;

  const json::object& members() const { return object_; }
  std::string field(std::string_view name) const;
  std::string_view entry() const { return entry_; }
  void wrong(std::string_view name, std::string_view right) const;  // the member's value is not right
  void missing(std::string_view name, std::string_view right) const;
  void complain(std::string field, std::string_view what) const;

 private:
  const json::object& object_;
  std::string path_;
  std::string_view entry_;
  std::vector<Problem>& problems_;
};

// Reads the members of a `tuning` object.
Tuning read_tuning(const Fields& fields);

}  // namespace gezel::catalog
