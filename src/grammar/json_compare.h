// grammar/json_compare.h
//
// JSON values and numbers as JSON Schema compares them.
#pragma once
#include <optional>

#include "base/json.h"

namespace gezel::grammar {

// Equality as JSON Schema means it: 1 equals 1.0, the order of members does not count.
bool json_equal(const json::value& a, const json::value& b);

// For two numbers: -1, 0 or 1; exact for integers.
int compare_numbers(const json::value& a, const json::value& b);

// A number without a fraction, also one written as 1.0.
bool is_whole(const json::value& value);

// Whether a number is a multiple of `step`, a number above 0, by their decimal digits. Nothing for numbers
// whose last digits were lost when they were read.
std::optional<bool> is_multiple(const json::value& value, const json::value& step);

}  // namespace gezel::grammar
