#include "catalog/version.h"

#include <algorithm>
#include <charconv>

namespace gezel::catalog {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}
bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::uint64_t> number(std::string_view text) {
  if (!is_number(text)) return std::nullopt;
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return std::nullopt;
  return out;
}

bool has_leading_zero(std::string_view text) {
  return text.size() > 1 && text.front() == '0';
}

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_word_char);
}

std::strong_ordering compare_parts(const std::string& a, const std::string& b) {
  const bool a_number = is_number(a), b_number = is_number(b);
  if (a_number != b_number) return a_number ? std::strong_ordering::less : std::strong_ordering::greater;
  // Numbers have no leading zeros, so the longer one is larger, however many digits it has.
  if (a_number && a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

// Empty when it cannot be read.
std::vector<std::uint64_t> dotted(std::string_view text) {
  std::vector<std::uint64_t> out;
  if (text.empty() || text.size() > kMaxVersionLength) return out;
  for (const auto part : split(text, '.')) {
    const auto value = number(part);
    if (!value) return {};
    out.push_back(*value);
  }
  while (!out.empty() && out.back() == 0) out.pop_back();  // missing numbers count as 0
  return out;
}

}  // namespace

std::optional<SemVer> SemVer::parse(std::string_view text) {
  if (text.empty() || text.size() > kMaxVersionLength) return std::nullopt;
  SemVer out;
  out.text_ = text;
  if (const std::size_t plus = text.find('+'); plus != std::string_view::npos) {
    for (const auto part : split(text.substr(plus + 1), '.')) {
      if (!is_word(part)) return std::nullopt;
    }
    text = text.substr(0, plus);
  }
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    for (const auto part : split(text.substr(dash + 1), '.')) {
      if (!is_word(part) || (is_number(part) && has_leading_zero(part))) return std::nullopt;
      out.prerelease_.emplace_back(part);
    }
    text = text.substr(0, dash);
  }
  const auto parts = split(text, '.');
  if (parts.size() != 3) return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto value = number(parts[i]);
    if (!value || has_leading_zero(parts[i])) return std::nullopt;
    out.numbers_[i] = *value;
  }
  return out;
}

std::strong_ordering SemVer::operator<=>(const SemVer& other) const {
  for (std::size_t i = 0; i < 3; ++i) {
    if (numbers_[i] != other.numbers_[i]) return numbers_[i] <=> other.numbers_[i];
  }
  if (prerelease_.empty() != other.prerelease_.empty()) {
    return prerelease_.empty() ? std::strong_ordering::greater : std::strong_ordering::less;
  }
  for (std::size_t i = 0; i < std::min(prerelease_.size(), other.prerelease_.size()); ++i) {
    if (const auto order = compare_parts(prerelease_[i], other.prerelease_[i]); order != 0) return order;
  }
  return prerelease_.size() <=> other.prerelease_.size();
}

bool meets_floor(std::string_view floor, std::string_view level) {
  const auto have = dotted(level);
  // "0.0.0" has no numbers left: an unstamped build takes everything.
  return have.empty() || dotted(floor) <= have;
}

std::string stricter_floor(std::string_view a, std::string_view b) {
  return std::string(dotted(a) < dotted(b) ? b : a);
}

}  // namespace gezel::catalog
