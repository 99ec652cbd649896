// cli/near_misses.h
//
// What somebody probably meant.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace gezel::cli {

// Of `known`, those most like `word`, best first, at most `most`. Alike means: few letters changed, dropped,
// added or swapped for its length, or one contains the other. Case does not count.
std::vector<std::string> near_misses(const std::vector<std::string>& known, std::string_view word,
                                     std::size_t most);

// " Did you mean A or B?" for what near_misses() found, "" for nothing.
std::string did_you_mean(const std::vector<std::string>& close);

}  // namespace gezel::cli
