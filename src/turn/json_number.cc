#include "turn/json_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace gezel::turn {
namespace {

// Digits at the front are skipped; whether there were any.
bool skip_digits(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  text.remove_prefix(digits);
  return digits > 0;
}

// Whole numbers that no overflow is possible with, which are most; nothing for others.
std::optional<std::int64_t> small_whole(std::string_view text) {
  constexpr std::size_t kSafeDigits = 18;
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > kSafeDigits) return std::nullopt;
  std::int64_t whole = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    whole = whole * 10 + (c - '0');
  }
  return negative ? -whole : whole;
}

}  // namespace

bool is_json_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9') return false;
  if (!skip_digits(text)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!skip_digits(text)) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!skip_digits(text)) return false;
  }
  return text.empty();
}

json::value parse_json_number(std::string_view text) {
  if (const auto whole = small_whole(text)) return *whole;
  const char* const end = text.data() + text.size();
  if (std::ranges::none_of(text, [](char c) { return c == '.' || c == 'e' || c == 'E'; })) {
    std::int64_t whole = 0;
    if (std::from_chars(text.data(), end, whole).ec == std::errc()) return whole;
    std::uint64_t large = 0;
    if (!text.starts_with('-') && std::from_chars(text.data(), end, large).ec == std::errc()) return large;
  }
  double number = 0;
  if (std::from_chars(text.data(), end, number).ec == std::errc::result_out_of_range) {
    // The standard leaves the value alone: too large and too small are told apart by the exponent's sign.
    const std::size_t exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && text.substr(exponent + 1).starts_with('-');
    number = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    if (text.starts_with('-')) number = -number;
  }
  return number;
}

}  // namespace gezel::turn
