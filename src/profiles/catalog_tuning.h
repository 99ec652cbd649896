// profiles/catalog_tuning.h
//
// The `tuning` of a catalog entry (spec 60 section 2.8) as the values that profiles are made of: the weakest
// layer, below every profile (apply() in match.h). Pure.
//
// What is not about how a request is answered is left to others: `engine` holds launch defaults, and `output`
// and `toolChoice` would change what a request means, so a request has to say them itself.
#pragma once
#include <string_view>
#include <vector>

#include "base/json.h"
#include "profiles/profile.h"

namespace gezel::profiles {

// `file` is for the problems, which name a JSON pointer inside `tuning`; a value that is wrong is left out
// and the others count. Members nobody knows are no problem: catalogs grow. `sampling.seed` is left out,
// because a seed for all requests would make every answer the same.
Values read_catalog_tuning(const json::object& tuning, std::string_view file, std::vector<Problem>& problems);

}  // namespace gezel::profiles
