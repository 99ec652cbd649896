// Loops over a fixed number of independent lanes: that is the form in which a compiler may vectorise a
// floating-point reduction without being allowed to reorder it. The bodies are inlined into one wrapper per
// instruction set.
#include "sampling/kernels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#define GEZEL_INLINE [[gnu::always_inline]] inline

namespace gezel::sampling {
namespace {

constexpr std::size_t kLanes = 16;
constexpr float kNone = -std::numeric_limits<float>::infinity();

GEZEL_INLINE float larger(float a, float b) {
  return a > b ? a : b;
}  // b when a is NaN

GEZEL_INLINE float max_of(const float* x, std::size_t size) {
  float lane[kLanes];
  for (float& value : lane) value = kNone;
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lane[j] = larger(x[i + j], lane[j]);
  }
  for (; i < size; ++i) lane[0] = larger(x[i], lane[0]);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) lane[j] = larger(lane[j + width], lane[j]);
  }
  return lane[0];
}

// exp(x) for x <= 0, by 2^n * exp(r) with |r| <= ln(2)/2 and the Taylor polynomial of degree 6, whose error
// there is below 2e-7. Below -87 (NaN included) the result is about 1e-38, which no sum of probabilities
// notices.
GEZEL_INLINE float exp_of_negative(float x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, in the low mantissa bits
  x = x > -87.0f ? x : -87.0f;
  const float shifted = x * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(p) + (exponent << 23));
}

GEZEL_INLINE float exp_sum_of(const float* x, std::size_t size, float max, float scale) {
  float lane[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lane[j] += exp_of_negative((x[i + j] - max) * scale);
  }
  for (; i < size; ++i) lane[0] += exp_of_negative((x[i] - max) * scale);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

// Adds the weights of up to `size` values to *total and their weighted logarithms to *logs.
GEZEL_INLINE void moments_body(const float* x, std::size_t size, float max, double* total, double* logs) {
  constexpr std::size_t kChunk = 1024;  // summed in single precision
  for (std::size_t at = 0; at < size; at += kChunk) {
    float weights[kLanes] = {}, products[kLanes] = {};
    const auto add = [&](std::size_t lane, float distance) __attribute__((always_inline)) {
      const float bounded = distance > -87.0f ? distance : -87.0f;
      const float weight = exp_of_negative(bounded);
      weights[lane] += weight;
      products[lane] += weight * bounded;
    };
    const std::size_t end = std::min(at + kChunk, size);
    std::size_t i = at;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t j = 0; j < kLanes; ++j) add(j, x[i + j] - max);
    }
    for (; i < end; ++i) add(0, x[i] - max);
    for (std::size_t j = 0; j < kLanes; ++j) *total += weights[j], *logs += products[j];
  }
}

constexpr std::size_t kBits = 32;
GEZEL_INLINE void allowed_body(const float* x, const std::uint32_t* words, std::size_t count,
                               float* __restrict out) {
  for (std::size_t word = 0; word < count; ++word) {
    const std::uint32_t bits = words[word];
    for (std::size_t j = 0; j < kBits; ++j) {
      const float value =
          x[word * kBits + j];  // read in any case: a load under a condition is not vectorised
      out[word * kBits + j] = (bits & std::uint32_t{1} << j) != 0 ? value : kNone;
    }
  }
}

GEZEL_INLINE void maxima_body(const float* x, std::size_t size, std::size_t block, float* out) {
  for (std::size_t at = 0; at < size; at += block) *out++ = max_of(x + at, std::min(block, size - at));
}
GEZEL_INLINE void sums_body(const float* x, std::size_t size, std::size_t block, float max, float scale,
                            float* out) {
  for (std::size_t at = 0; at < size; at += block)
    *out++ = exp_sum_of(x + at, std::min(block, size - at), max, scale);
}
GEZEL_INLINE void values_body(const float* x, std::size_t size, float max, float scale, float* out) {
  for (std::size_t i = 0; i < size; ++i) out[i] = exp_of_negative((x[i] - max) * scale);
}

struct Kernels {
  void (*maxima)(const float*, std::size_t, std::size_t, float*);
  void (*sums)(const float*, std::size_t, std::size_t, float, float, float*);
  void (*values)(const float*, std::size_t, float, float, float*);
  void (*moments)(const float*, std::size_t, float, double*, double*);
  void (*allowed)(const float*, const std::uint32_t*, std::size_t, float*);
};

constexpr Kernels kPortable = {
    [](const float* x, std::size_t size, std::size_t block, float* out) { maxima_body(x, size, block, out); },
    [](const float* x, std::size_t size, std::size_t block, float max, float scale, float* out) {
      sums_body(x, size, block, max, scale, out);
    },
    [](const float* x, std::size_t size, float max, float scale, float* out) {
      values_body(x, size, max, scale, out);
    },
    [](const float* x, std::size_t size, float max, double* total, double* logs) {
      moments_body(x, size, max, total, logs);
    },
    [](const float* x, const std::uint32_t* words, std::size_t count, float* __restrict out) {
      allowed_body(x, words, count, out);
    },
};

#if defined(__x86_64__)
#define GEZEL_AVX2 [[gnu::target("avx2,fma")]]
GEZEL_AVX2 void maxima_avx2(const float* x, std::size_t size, std::size_t block, float* out) {
  maxima_body(x, size, block, out);
}
GEZEL_AVX2 void sums_avx2(const float* x, std::size_t size, std::size_t block, float max, float scale,
                          float* out) {
  sums_body(x, size, block, max, scale, out);
}
GEZEL_AVX2 void values_avx2(const float* x, std::size_t size, float max, float scale, float* out) {
  values_body(x, size, max, scale, out);
}
GEZEL_AVX2 void moments_avx2(const float* x, std::size_t size, float max, double* total, double* logs) {
  moments_body(x, size, max, total, logs);
}
GEZEL_AVX2 void allowed_avx2(const float* x, const std::uint32_t* words, std::size_t count,
                             float* __restrict out) {
  allowed_body(x, words, count, out);
}
Kernels choose() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 ? Kernels{maxima_avx2, sums_avx2, values_avx2, moments_avx2, allowed_avx2} : kPortable;
}
#else
Kernels choose() {
  return kPortable;
}
#endif

const Kernels& kernels() {
  static const Kernels chosen = choose();
  return chosen;
}

}  // namespace

float block_maxima(std::span<const float> row, std::size_t block, std::vector<float>& maxima) {
  maxima.resize((row.size() + block - 1) / block);
  kernels().maxima(row.data(), row.size(), block, maxima.data());
  float max = kNone;
  for (const float value : maxima) max = larger(value, max);
  return max;
}

double block_exp_sums(std::span<const float> row, std::size_t block, float max, float scale,
                      std::vector<float>& sums) {
  sums.resize((row.size() + block - 1) / block);
  kernels().sums(row.data(), row.size(), block, max, scale, sums.data());
  double total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

Moments exp_moments(std::span<const float> row, float max) {
  double total = 0, logs = 0;
  kernels().moments(row.data(), row.size(), max, &total, &logs);
  return {total, logs / total};
}

void copy_allowed(std::span<const float> row, std::span<const std::uint32_t> allowed,
                  std::vector<float>& out) {
  out.resize(row.size());
  const std::size_t whole = std::min(row.size() / kBits, allowed.size());
  kernels().allowed(row.data(), allowed.data(), whole, out.data());
  for (std::size_t i = whole * kBits; i < row.size(); ++i) {
    const bool is_allowed = i / kBits < allowed.size() && (allowed[i / kBits] >> i % kBits & 1) != 0;
    out[i] = is_allowed ? row[i] : kNone;
  }
}

void exp_values(std::span<const float> row, float max, float scale, float* out) {
  kernels().values(row.data(), row.size(), max, scale, out);
}

}  // namespace gezel::sampling
