#include "turn/names.h"

#include <algorithm>
#include <array>

namespace gezel::turn {
namespace {

constexpr std::size_t kSeveral = static_cast<std::size_t>(-1);
constexpr std::array<std::string_view, 2> kPrefixes = {"functions.", "default_api."};

}  // namespace

std::string normalise_name(std::string_view name) {
  std::string normalised;
  for (const char c : name) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) normalised += c;
    if (c >= 'A' && c <= 'Z') normalised += static_cast<char>(c - 'A' + 'a');
  }
  return normalised;
}

// The classic table row by row, but only the 2 * limit + 1 cells around the diagonal: outside them the
// distance is above the limit anyway.
std::optional<std::size_t> edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > limit) return std::nullopt;
  const std::size_t above = limit + 1;
  std::vector<std::size_t> row(b.size() + 1, above), next(b.size() + 1, above);
  for (std::size_t j = 0; j <= std::min(limit, b.size()); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const std::size_t first = i > limit ? i - limit : 0, last = std::min(b.size(), i + limit);
    std::size_t smallest = above;
    for (std::size_t j = first; j <= last; ++j) {
      std::size_t best = above;
      if (j == 0) {
        best = i;
      } else {
        best = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
        if (j > first) best = std::min(best, next[j - 1] + 1);
        if (j < i + limit) best = std::min(best, row[j] + 1);
      }
      next[j] = std::min(best, above);
      smallest = std::min(smallest, next[j]);
    }
    if (smallest > limit) return std::nullopt;
    std::swap(row, next);
  }
  if (row[b.size()] > limit) return std::nullopt;
  return row[b.size()];
}

NameIndex::NameIndex(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    exact_.try_emplace(names[i], i);
    std::string normalised = normalise_name(names[i]);
    if (normalised.empty()) continue;
    const auto [other, added] = normalised_.try_emplace(std::move(normalised), i);
    if (!added) other->second = kSeveral;
  }
}

std::optional<std::size_t> NameIndex::exact(std::string_view name) const {
  const auto found = exact_.find(name);
  if (found == exact_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> NameIndex::alike(std::string_view name) const {
  const auto found = normalised_.find(normalise_name(name));
  if (found == normalised_.end() || found->second == kSeveral) return std::nullopt;
  return found->second;
}

ToolNames::ToolNames(std::vector<std::string> names) : names_(std::move(names)), index_(names_) {
  normalised_.reserve(names_.size());
  for (const std::string& name : names_) normalised_.push_back(normalise_name(name));
}

std::optional<std::size_t> ToolNames::resolve(std::string_view wanted) const {
  if (const auto found = index_.exact(wanted)) return found;
  for (const std::string_view prefix : kPrefixes) {
    if (!wanted.starts_with(prefix)) continue;
    wanted.remove_prefix(prefix.size());
    if (const auto found = index_.exact(wanted)) return found;
    break;
  }
  return index_.alike(wanted);
}

std::optional<std::size_t> ToolNames::suggest(std::string_view wanted) const {
  const std::string normalised = normalise_name(wanted);
  std::size_t limit = std::min<std::size_t>(3, std::max<std::size_t>(1, normalised.size() / 4));
  std::optional<std::size_t> nearest;
  for (std::size_t i = 0; i < normalised_.size(); ++i) {
    const auto distance = edit_distance(normalised, normalised_[i], limit);
    if (!distance) continue;
    nearest = i;
    if (*distance == 0) break;
    limit = *distance - 1;  // only a nearer one replaces it
  }
  return nearest;
}

std::string list_names(const std::vector<std::string>& names, std::size_t limit) {
  std::string list;
  for (std::size_t i = 0; i < std::min(limit, names.size()); ++i) {
    if (i > 0) list += ", ";
    list += names[i];
  }
  if (names.size() > limit) list += ", +" + std::to_string(names.size() - limit) + " more";
  return list;
}

}  // namespace gezel::turn
