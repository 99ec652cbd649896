// models/ids.h
//
// Ids of installed models (spec 60 sections 1 and 17.1): which are allowed, how one is derived from a file's
// name, and which known ids a mistyped one was probably meant to be. Pure.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gezel::models {

inline constexpr std::size_t kMaxIdLength = 64;
// Of the ids of local files: no catalog item has it.
inline constexpr std::string_view kLocalPrefix = "local-";

// A letter or digit, then letters, digits, '.', '-' and ':', at most kMaxIdLength characters, either case.
// Such an id is one path segment and never hidden.
bool is_store_safe_id(std::string_view id);
// Error `invalid-model-id`, which says what an id is.
Result<> check_store_safe_id(std::string_view id);

// Ids are told apart without regard to case, because some file systems do.
bool same_id(std::string_view a, std::string_view b);

// "My Model.Q4_K_M" -> "local-my-model.q4-k-m". The prefix keeps a local file from taking a catalog item's
// id, and with it that item's tuning, by accident.
std::string local_id(std::string_view file_stem);

// The same of any length.
std::string whole_local_id(std::string_view file_stem);

// `base` and then `mark`; `base` is shortened where the whole would be too long.
std::string marked_id(std::string_view base, std::string_view mark);

// `base` for 1, "base-2" for 2 and so on; `base` is shortened where the whole would be too long.
std::string numbered_id(std::string_view base, int number);

// Insertions, deletions, substitutions and swaps of neighbours that turn one into the other, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidates most like `id`, best first, at most `limit`: those that contain it or are contained in it,
// and those that differ in no more than a third of their characters.
std::vector<std::string> most_similar(std::string_view id, const std::vector<std::string>& candidates,
                                      std::size_t limit = 3);

}  // namespace gezel::models
