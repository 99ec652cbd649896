#include "grammar/json_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gezel::grammar {

namespace {

// coefficient times 10^exponent, exactly what was written for numbers of up to 17 digits.
struct Decimal {
  std::int64_t coefficient = 0;
  int exponent = 0;
};

Decimal decimal_of(const json::value& value) {
  if (value.is_int64()) return {value.get_int64(), 0};
  // The shortest digits that mean this number: "-1.25e-07".
  const auto shortest = fmt::format("{}", value.to_number<double>());
  Decimal made;
  int places = 0;
  bool behind_point = false;
  const auto mark = shortest.find_first_of("eE");
  for (const char c : std::string_view(shortest).substr(0, mark)) {
    if (c == '.') behind_point = true;
    if (c < '0' || c > '9') continue;
    made.coefficient = made.coefficient * 10 + (c - '0');
    places += behind_point ? 1 : 0;
  }
  if (mark != std::string::npos) made.exponent = std::atoi(shortest.c_str() + mark + 1);
  made.exponent -= places;
  return made;
}

}  // namespace

bool is_whole(const json::value& value) {
  if (!value.is_double()) return value.is_number();
  return std::isfinite(value.get_double()) && std::floor(value.get_double()) == value.get_double();
}

int compare_numbers(const json::value& a, const json::value& b) {
  if (a.is_int64() && b.is_int64()) return a.get_int64() < b.get_int64() ? -1 : a.get_int64() > b.get_int64();
  if (a.is_uint64() && b.is_uint64())
    return a.get_uint64() < b.get_uint64() ? -1 : a.get_uint64() > b.get_uint64();
  const auto exact = [](const json::value& v) {
    return v.is_int64()    ? static_cast<long double>(v.get_int64())
           : v.is_uint64() ? static_cast<long double>(v.get_uint64())
                           : static_cast<long double>(v.get_double());
  };
  return exact(a) < exact(b) ? -1 : exact(a) > exact(b);
}

std::optional<bool> is_multiple(const json::value& value, const json::value& step) {
  if (value.is_double() && std::abs(value.get_double()) >= 9007199254740992.0) return std::nullopt;
  if (value.is_uint64()) return std::nullopt;
  const auto v = decimal_of(value);
  const auto s = decimal_of(step);
  if (v.coefficient == 0) return true;
  // v divides by s: |v| * 10^(difference) by |s|, or |v| by |s| * 10^(-difference).
  unsigned __int128 dividend = static_cast<std::uint64_t>(std::abs(v.coefficient));
  unsigned __int128 divisor = static_cast<std::uint64_t>(std::abs(s.coefficient));
  for (int difference = v.exponent - s.exponent; difference > 0; --difference)
    dividend = dividend * 10 % divisor;
  for (int difference = s.exponent - v.exponent; difference > 0; --difference) {
    divisor *= 10;
    if (divisor > dividend) return false;
  }
  return dividend % divisor == 0;
}

bool json_equal(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) return std::ranges::equal(a.get_array(), b.get_array(), json_equal);
  if (!a.is_object()) return a == b;
  const auto& other = b.get_object();
  return a.get_object().size() == other.size() &&
         std::ranges::all_of(a.get_object(), [&](const auto& member) {
           const auto* found = other.if_contains(member.key());
           return found != nullptr && json_equal(member.value(), *found);
         });
}

}  // namespace gezel::grammar
