#include "models/ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace gezel::models {
namespace {

// Not the C functions: those depend on the locale.
bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

}  // namespace

bool is_store_safe_id(std::string_view id) {
  if (id.empty() || id.size() > kMaxIdLength || !is_alnum(id.front())) return false;
  return std::all_of(id.begin(), id.end(),
                     [](char c) { return is_alnum(c) || c == '.' || c == '-' || c == ':'; });
}

Result<> check_store_safe_id(std::string_view id) {
  if (is_store_safe_id(id)) return {};
  return fail(
      ErrorKind::invalid, "invalid-model-id",
      fmt::format("\"{}\" is no model id: a letter or digit, then letters, digits, '.', '-' and ':', at most "
                  "{} characters",
                  id.substr(0, 200), kMaxIdLength),
      "id");
}

bool same_id(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string local_id(std::string_view file_stem) {
  return numbered_id(whole_local_id(file_stem), 1);
}

std::string whole_local_id(std::string_view file_stem) {
  std::string slug;
  for (const char raw : file_stem) {
    const char c = lower(raw);
    if ((is_alnum(c)) || c == '.') {
      slug += c;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  while (!slug.empty() && is_edge(slug.back())) slug.pop_back();
  slug.erase(slug.begin(), std::find_if_not(slug.begin(), slug.end(), is_edge));
  if (slug.empty()) slug = "model";
  return std::string(kLocalPrefix) + slug;
}

std::string marked_id(std::string_view base, std::string_view mark) {
  std::string out(base.substr(0, kMaxIdLength - mark.size()));
  while (out.size() > 1 && (out.back() == '-' || out.back() == '.')) out.pop_back();
  out += mark;
  return out;
}

std::string numbered_id(std::string_view base, int number) {
  return marked_id(base, number > 1 ? fmt::format("-{}", number) : std::string());
}

std::size_t edit_distance(std::string_view first, std::string_view second) {
  // Ids are short; longer strings would only cost time and can never be near.
  const std::string a = lowered(first.substr(0, 256));
  const std::string b = lowered(second.substr(0, 256));
  std::array<std::vector<std::size_t>, 3> rows;  // two rows back, the row above, the current one
  for (auto& row : rows) row.resize(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) rows[2][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
    rows[2][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = rows[1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[2][j] = std::min({rows[1][j] + 1, rows[2][j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[2][j] = std::min(rows[2][j], rows[0][j - 2] + 1);
      }
    }
  }
  return rows[2][b.size()];
}

std::vector<std::string> most_similar(std::string_view id, const std::vector<std::string>& candidates,
                                      std::size_t limit) {
  const std::string wanted = lowered(id.substr(0, 256));
  if (wanted.empty()) return {};
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    const std::string known = lowered(candidate);
    const std::size_t distance = edit_distance(wanted, known);
    const std::size_t longer = std::max(wanted.size(), known.size());
    // Three characters in common say something, one or two occur anywhere.
    const bool contained =
        std::min(wanted.size(), known.size()) >= 3 &&
        (known.find(wanted) != std::string::npos || wanted.find(known) != std::string::npos);
    if (!contained && distance * 3 > longer) continue;
    // A name typed in part is nearer than one with as many other letters.
    ranked.emplace_back(contained ? distance / 4 : distance, candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(limit, ranked.size()); ++i) out.push_back(ranked[i].second);
  return out;
}

}  // namespace gezel::models
