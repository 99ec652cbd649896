#include "speculation/step_ratio.h"

#include <algorithm>
#include <bit>

namespace gezel::speculation {
namespace {

// Before anything was measured. Cheap enough that a first draft is tried.
constexpr double kFirstGuess = 0.2;
constexpr double kWeight = 0.25;  // of the newest observation
// One call that the machine interrupted must not end drafting: nothing costs more than computing it alone.
constexpr double kMostPerRow = 1.5;

}  // namespace

std::size_t StepRatio::bucket_of(std::size_t rows) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(rows - 1)) - 1, kBuckets - 1);
}

void StepRatio::observe(std::size_t rows, double ms, double single_ms) {
  if (rows < 2 || single_ms <= 0 || ms <= 0) return;
  const double per_row = std::clamp((ms / single_ms - 1) / static_cast<double>(rows - 1), 0.0, kMostPerRow);
  Bucket& bucket = buckets_[bucket_of(rows)];
  bucket.per_row = bucket.known ? bucket.per_row + kWeight * (per_row - bucket.per_row) : per_row;
  bucket.known = true;
}

double StepRatio::of(std::size_t rows) const {
  if (rows < 2) return 1;
  // The nearest size that was measured; of two as near the smaller, which was measured more often.
  const auto wanted = static_cast<int>(bucket_of(rows));
  double per_row = kFirstGuess;
  for (int away = 0; away < static_cast<int>(kBuckets); ++away) {
    const int below = wanted - away, above = wanted + away;
    if (below >= 0 && buckets_[static_cast<std::size_t>(below)].known) {
      per_row = buckets_[static_cast<std::size_t>(below)].per_row;
      break;
    }
    if (above < static_cast<int>(kBuckets) && buckets_[static_cast<std::size_t>(above)].known) {
      per_row = buckets_[static_cast<std::size_t>(above)].per_row;
      break;
    }
  }
  return 1 + per_row * static_cast<double>(rows - 1);
}

}  // namespace gezel::speculation
