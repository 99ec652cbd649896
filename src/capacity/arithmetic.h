// capacity/arithmetic.h
//
// Exact shares of byte counts. Planner figures are compared byte for byte, so nothing here ever passes
// through a floating number: products have 128 bits and are divided last. Internal to the module.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/bytes.h"

namespace gezel::capacity {

using Wide = unsigned __int128;
using SignedWide = __int128;

inline constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();

constexpr Bytes saturate(Wide value) {
  return static_cast<Bytes>(std::min(value, Wide{kMaxBytes}));
}

// floor(value * numerator / denominator).
constexpr Bytes floor_share(Bytes value, std::uint64_t numerator, std::uint64_t denominator) {
  return saturate(Wide{value} * numerator / denominator);
}

// value / divisor, half up.
constexpr Bytes round_div(Wide value, std::uint64_t divisor) {
  return saturate((value + divisor / 2) / divisor);
}

// value * numerator / denominator, half up.
constexpr Bytes round_share(Bytes value, std::uint64_t numerator, std::uint64_t denominator) {
  return round_div(Wide{value} * numerator, denominator);
}

// max(0, from - what).
constexpr Bytes minus(Bytes from, Bytes what) {
  return from > what ? from - what : 0;
}

constexpr Bytes plus(Bytes a, Bytes b) {
  return saturate(Wide{a} + b);
}
constexpr Bytes times(Bytes value, std::uint64_t factor) {
  return saturate(Wide{value} * factor);
}

}  // namespace gezel::capacity
