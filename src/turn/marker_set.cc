#include "turn/marker_set.h"

#include <algorithm>
#include <tuple>

namespace gezel::turn {
namespace {

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

}  // namespace

void MarkerSet::add(std::string_view marker, int id, bool any_case) {
  if (marker.size() < 2) return;
  const auto begins = [&](char a, char b) {
    first_.set(static_cast<unsigned char>(a));
    pairs_.set(pair(a, b));
  };
  begins(marker[0], marker[1]);
  if (!any_case) {
    exact_.push_back({std::string(marker), id});
    return;
  }
  for (const char a : {lower(marker[0]), upper(marker[0])}) {
    for (const char b : {lower(marker[1]), upper(marker[1])}) begins(a, b);
  }
  folded_.push_back({std::string(marker), id});
  std::ranges::transform(folded_.back().text, folded_.back().text.begin(), lower);
}

void MarkerSet::build() {
  // Ids ascend in the order of adding.
  const auto order = [](const Entry& a, const Entry& b) {
    return std::tie(a.text, a.id) < std::tie(b.text, b.id);
  };
  std::ranges::sort(exact_, order);
  std::ranges::sort(folded_, order);
}

void MarkerSet::find_in(const std::vector<Entry>& entries, std::string_view text, bool fold, Found& found) {
  auto begin = entries.begin(), end = entries.end();
  std::size_t at = 0;
  for (; begin != end; ++at) {
    // Markers that end here stand first in the range.
    for (; begin != end && begin->text.size() == at; ++begin) {
      std::size_t place = found.count;
      while (place > 0 && found.matches[place - 1].size < at) --place;
      if (place == kMaxMatches) continue;
      found.count = std::min(found.count + 1, kMaxMatches);
      for (std::size_t i = found.count - 1; i > place; --i) found.matches[i] = found.matches[i - 1];
      found.matches[place] = {begin->id, at};
    }
    if (begin == end || at == text.size()) break;
    const auto byte = static_cast<unsigned char>(fold ? lower(text[at]) : text[at]);
    const auto byte_at = [at](const Entry& entry) { return static_cast<unsigned char>(entry.text[at]); };
    begin = std::lower_bound(begin, end, byte,
                             [&](const Entry& entry, unsigned char b) { return byte_at(entry) < b; });
    end = std::upper_bound(begin, end, byte,
                           [&](unsigned char b, const Entry& entry) { return b < byte_at(entry); });
  }
  if (begin != end) found.undecided = true;
}

MarkerSet::Found MarkerSet::find(std::string_view text) const {
  Found found;
  if (!may_begin(text)) return found;
  find_in(exact_, text, false, found);
  if (!folded_.empty()) find_in(folded_, text, true, found);
  return found;
}

}  // namespace gezel::turn
