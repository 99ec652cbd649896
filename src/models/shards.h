// models/shards.h
//
// Which files make up a model: the parts of a split set (gguf/split.h) are one, a folder may hold several,
// projectors and importance matrices are none.
#pragma once
#include <cstdint>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace gezel::models {

// Of one model: more than any real one has, few enough to list. A name can claim 99,999 of them.
inline constexpr std::uint32_t kMaxParts = 4096;

// All parts of the set that `any_part` belongs to, in order; just the file itself when it is no part of one.
// Parts that are not in the same folder are listed in the error `missing_parts`.
Result<std::vector<fs::path>> gather_parts(const fs::path& any_part);

// The model files in a folder, sorted by name: the first existing part of each set, and every other *.gguf
// except projectors (mmproj) and importance matrices (imatrix), which belong to a model but are none.
Result<std::vector<fs::path>> model_files_in(const fs::path& folder);

// Projectors beside a model, sorted by name.
std::vector<fs::path> projectors_beside(const fs::path& weights);

}  // namespace gezel::models
