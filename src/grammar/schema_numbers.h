// grammar/schema_numbers.h
//
// Numbers in schemas as the constraint library can take them: it reads all of them as doubles.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"

namespace gezel::grammar {

// A non-negative whole number, also written as 3.0.
std::optional<std::uint64_t> count_of(const json::value& value);
std::optional<std::uint64_t> count_at(const json::object& schema, std::string_view key);

// A bound on numbers, moved inwards where it is no double, so that nothing outside is let through. Nothing
// when it lies beyond the range of 64-bit integers on the side where all integers would be outside.
std::optional<json::value> enforceable_bound(const json::value& number, bool upper);

// A number inside `value` that is not told apart from its neighbours.
bool has_inexact_number(const json::value& value);

}  // namespace gezel::grammar
