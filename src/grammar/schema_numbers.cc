#include "grammar/schema_numbers.h"

#include <algorithm>
#include <cmath>

namespace gezel::grammar {

namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // from here on doubles are further apart than 1
constexpr double kLastInt64 = 9223372036854775807.0;

double moved_inwards(const json::value& number, bool upper) {
  const double rounded = number.to_number<double>();
  const long double exact = number.is_int64()    ? static_cast<long double>(number.get_int64())
                            : number.is_uint64() ? static_cast<long double>(number.get_uint64())
                                                 : static_cast<long double>(rounded);
  // The smallest that the library can negate.
  if (rounded <= -kLastInt64) return std::nextafter(-kLastInt64, HUGE_VAL);
  if (upper && rounded > exact && rounded < kLastInt64) return std::nextafter(rounded, -HUGE_VAL);
  if (!upper && rounded < exact) return std::nextafter(rounded, HUGE_VAL);
  return rounded;
}

}  // namespace

std::optional<std::uint64_t> count_of(const json::value& value) {
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  if (value.is_uint64()) return value.get_uint64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  if (!(number >= 0) || number >= kExactIntegers || std::floor(number) != number) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::optional<std::uint64_t> count_at(const json::object& schema, std::string_view key) {
  const auto* value = schema.if_contains(key);
  return value == nullptr ? std::nullopt : count_of(*value);
}

std::optional<json::value> enforceable_bound(const json::value& number, bool upper) {
  const double given = number.to_number<double>();
  if (!std::isfinite(given) || (upper ? given < -kLastInt64 : given > kLastInt64)) return std::nullopt;
  const double bound = moved_inwards(number, upper);
  // Written as an integer where it is one: the library's reader of fractions may be off by the last bit.
  if (std::floor(bound) == bound && std::abs(bound) < kLastInt64)
    return json::value(static_cast<std::int64_t>(bound));
  return json::value(bound);
}

bool has_inexact_number(const json::value& value) {
  if (value.is_number()) return std::abs(value.to_number<double>()) >= kExactIntegers;
  if (const auto* array = value.if_array()) return std::ranges::any_of(*array, has_inexact_number);
  if (const auto* object = value.if_object()) {
    return std::ranges::any_of(*object,
                               [](const auto& member) { return has_inexact_number(member.value()); });
  }
  return false;
}

}  // namespace gezel::grammar
