// capacity/cache_budget.h
//
// How much memory prompts may be kept in where nobody says so (spec 40 section 2.1).
#pragma once
#include "base/bytes.h"

namespace gezel::capacity {

// By the machine's memory: 2 GiB below 16 GiB, 4 below 32, 8 below 64, else 16.
constexpr Bytes default_cache_budget(Bytes ram) {
  if (ram < 16 * kGiB) return 2 * kGiB;
  if (ram < 32 * kGiB) return 4 * kGiB;
  if (ram < 64 * kGiB) return 8 * kGiB;
  return 16 * kGiB;
}

}  // namespace gezel::capacity
