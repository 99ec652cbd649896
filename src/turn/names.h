// turn/names.h
//
// Names of tools as models write them (spec 50 section 4.5). A name resolves to a tool only if it is that
// name up to a known prefix, letter case and punctuation; similarity is used for a suggestion and never to
// run something.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gezel::turn {

// Lower case, only the letters and digits of ASCII.
std::string normalise_name(std::string_view name);

// The Levenshtein distance in bytes, or nothing if it is above `limit`. Work is limit * size.
std::optional<std::size_t> edit_distance(std::string_view a, std::string_view b, std::size_t limit);

// Names by their text and by their normalised text.
class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(const std::vector<std::string>& names);

  std::optional<std::size_t> exact(std::string_view name) const;
  // The only name that is equal to `name` when both are normalised.
  std::optional<std::size_t> alike(std::string_view name) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Map = std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>>;

  Map exact_;
  Map normalised_;  // kSeveral where several names are equal when normalised
};

class ToolNames {
 public:
  explicit ToolNames(std::vector<std::string> names);

  // The tool meant: exact; else without the prefix `functions.` or `default_api.`; else equal when
  // normalised, if exactly one tool is. The index into names().
  std::optional<std::size_t> resolve(std::string_view wanted) const;
  // For feedback only: the name nearest to `wanted` (both normalised), at most
  // min(3, max(1, floor(length / 4))) edits away, the first of several.
  std::optional<std::size_t> suggest(std::string_view wanted) const;

  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::string> normalised_;
  NameIndex index_;
};

// "ping, add, search, +3 more": at most `limit` names.
std::string list_names(const std::vector<std::string>& names, std::size_t limit = 40);

}  // namespace gezel::turn
