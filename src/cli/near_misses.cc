#include "cli/near_misses.h"

#include <algorithm>
#include <numeric>

namespace gezel::cli {
namespace {

constexpr std::size_t kLongest = 256;  // distances are quadratic; longer words are cut

std::string lower(std::string_view text) {
  std::string out(text.substr(0, kLongest));
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Optimal string alignment distance (Damerau-Levenshtein without touching a letter twice): a swapped pair,
// the commonest slip at a keyboard, counts once.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::vector<std::string> near_misses(const std::vector<std::string>& known, std::string_view word,
                                     std::size_t most) {
  const std::string wanted = lower(word);
  std::vector<std::pair<std::size_t, std::size_t>> scored;  // score, index in `known`
  for (std::size_t index = 0; index < known.size(); ++index) {
    const std::string candidate = lower(known[index]);
    if (candidate.empty() || wanted.empty()) continue;
    std::size_t score = 2 * distance(candidate, wanted);
    const std::size_t limit = 2 * std::max<std::size_t>(1, std::max(wanted.size(), candidate.size()) / 3);
    const bool contained =
        wanted.size() >= 3 && (candidate.find(wanted) != std::string::npos ||
                               (candidate.size() >= 3 && wanted.find(candidate) != std::string::npos));
    if (contained) score = std::min<std::size_t>(score, 3);
    if (score <= limit || contained) scored.emplace_back(score, index);
  }
  std::sort(scored.begin(), scored.end());  // equal scores stay in their order
  std::vector<std::string> out;
  for (const auto& [score, index] : scored) {
    if (out.size() == most) break;
    out.push_back(known[index]);
  }
  return out;
}

std::string did_you_mean(const std::vector<std::string>& close) {
  if (close.empty()) return {};
  std::string out = " Did you mean ";
  for (std::size_t i = 0; i < close.size(); ++i) {
    if (i > 0) out += i + 1 == close.size() ? " or " : ", ";
    out += close[i];
  }
  return out + "?";
}

}  // namespace gezel::cli
