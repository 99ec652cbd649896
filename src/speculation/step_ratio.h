// speculation/step_ratio.h
//
// What a call that checks a draft costs beside one that computes a single token, learned from the calls that
// were made (spec 40 section 11.14.4: t(k+1) / t(1)). It differs by an order of magnitude between models,
// processors and quantizations, so nothing about it is assumed for long. Pure, one per loaded model.
#pragma once
#include <array>
#include <cstddef>

namespace gezel::speculation {

class StepRatio {
 public:
  // A call with `rows` rows of one run took `ms`; one row there takes `single_ms`.
  void observe(std::size_t rows, double ms, double single_ms);
  // t(rows) / t(1); 1 for one row.
  double of(std::size_t rows) const;

 private:
  // Cost of one more row in units of a call with one row, by the number of rows: 2, 3-4, 5-8, ... 33-64.
  // Kernels work in tiles, so it is no line.
  static constexpr std::size_t kBuckets = 6;
  struct Bucket {
    double per_row = 0;
    bool known = false;
  };
  static std::size_t bucket_of(std::size_t rows);
  std::array<Bucket, kBuckets> buckets_{};
};

}  // namespace gezel::speculation
