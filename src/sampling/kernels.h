// sampling/kernels.h
//
// The passes over a whole vocabulary: everything else in this module touches few tokens. Written so that the
// compiler turns the loops into vector instructions; on x86 a second copy is compiled for AVX2 and chosen
// once at start.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gezel::sampling {

// The row is cut into blocks of `block` values (the last one may be shorter); writes the maximum of each and
// returns the maximum of all. NaN counts as minus infinity, here and below.
float block_maxima(std::span<const float> row, std::size_t block, std::vector<float>& maxima);

// Sum of exp((x - max) * scale), where max is the row's maximum, and of each block. The relative error is
// below 1e-6.
double block_exp_sums(std::span<const float> row, std::size_t block, float max, float scale,
                      std::vector<float>& sums);

// The distribution's total weight and its mean of ln(weight), where weight = exp(x - max).
struct Moments {
  double total = 0;
  double mean = 0;
};
Moments exp_moments(std::span<const float> row, float max);

// Copies the values whose bit is set in `allowed` (bit i%32 of word i/32; missing words are 0); the others
// become minus infinity.
void copy_allowed(std::span<const float> row, std::span<const std::uint32_t> allowed,
                  std::vector<float>& out);

// exp((x - max) * scale) of each value, computed exactly as in block_exp_sums.
void exp_values(std::span<const float> row, float max, float scale, float* out);

}  // namespace gezel::sampling
