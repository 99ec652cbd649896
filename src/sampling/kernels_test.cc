#include "sampling/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace gezel::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 5);
  std::vector<float> row(size);
  for (float& value : row) value = normal(random);
  return row;
}

TEST(Kernels, BlockMaximaAreThoseOfEachBlock) {
  for (const std::size_t size : {1u, 15u, 16u, 17u, 63u, 64u, 65u, 1000u, 4099u}) {
    for (const std::size_t block : {16u, 64u, 256u}) {
      const std::vector<float> row = random_row(size, static_cast<unsigned>(size + block));
      std::vector<float> maxima;
      const float max = block_maxima(row, block, maxima);
      EXPECT_EQ(max, *std::max_element(row.begin(), row.end()));
      ASSERT_EQ(maxima.size(), (size + block - 1) / block);
      for (std::size_t i = 0; i < maxima.size(); ++i) {
        const auto begin = row.begin() + static_cast<std::ptrdiff_t>(i * block);
        const auto end = row.begin() + static_cast<std::ptrdiff_t>(std::min(size, (i + 1) * block));
        EXPECT_EQ(maxima[i], *std::max_element(begin, end));
      }
    }
  }
}

TEST(Kernels, NanAndMinusInfinityNeverAreAMaximum) {
  std::vector<float> row(100, NAN), maxima;
  EXPECT_EQ(block_maxima(row, 16, maxima), -kInf);
  for (const std::size_t at : {0u, 1u, 15u, 16u, 98u, 99u}) {
    row.assign(100, at % 2 == 0 ? NAN : -kInf);
    row[at] = -3;
    EXPECT_EQ(block_maxima(row, 16, maxima), -3) << at;
  }
}

TEST(Kernels, WeightsAreTheExponentialToSixDigits) {
  std::vector<float> row, weights;
  for (float x = -86; x <= 0; x += 0.0137f) row.push_back(x);
  row.push_back(0);
  weights.resize(row.size());
  exp_values(row, 0, 1, weights.data());
  for (std::size_t i = 0; i < row.size(); ++i) {
    EXPECT_NEAR(weights[i] / std::exp(static_cast<double>(row[i])), 1, 1e-6) << row[i];
  }
  EXPECT_EQ(weights.back(), 1.0f);
}

TEST(Kernels, NanAndMinusInfinityWeighNothing) {
  const std::vector<float> row = {NAN, -kInf, -1e30f, -1e38f};
  std::vector<float> weights(row.size()), sums;
  exp_values(row, 0, 1, weights.data());
  for (const float weight : weights) EXPECT_LT(weight, 1e-37f);
  EXPECT_LT(block_exp_sums(row, 16, 0, 1, sums), 1e-36);
  const std::vector<float> one = {NAN, 2, -kInf};
  const Moments moments = exp_moments(one, 2);
  EXPECT_NEAR(moments.total, 1, 1e-6);
  EXPECT_NEAR(moments.mean, 0, 1e-6);
}

TEST(Kernels, SumsAndMomentsAreThoseOfTheExponentials) {
  for (const std::size_t size : {1u, 31u, 5000u, 49152u}) {
    const std::vector<float> row = random_row(size, 5);
    const float max = *std::max_element(row.begin(), row.end());
    double total = 0, scaled = 0, logs = 0;
    for (const float x : row) {
      total += std::exp(static_cast<double>(x) - max);
      scaled += std::exp((static_cast<double>(x) - max) * 0.5);
      logs += std::exp(static_cast<double>(x) - max) * (x - max);
    }
    std::vector<float> sums;
    EXPECT_NEAR(block_exp_sums(row, 64, max, 1, sums) / total, 1, 1e-5);
    EXPECT_NEAR(block_exp_sums(row, 256, max, 0.5f, sums) / scaled, 1, 1e-5);
    const Moments moments = exp_moments(row, max);
    EXPECT_NEAR(moments.total / total, 1, 1e-5);
    EXPECT_NEAR(moments.mean, logs / total, 1e-4);
  }
}

TEST(Kernels, OnlyAllowedValuesAreCopied) {
  for (const std::size_t size : {1u, 32u, 33u, 64u, 100u, 1000u}) {
    const std::vector<float> row = random_row(size, 3);
    std::mt19937 random(static_cast<unsigned>(size));
    for (const std::size_t words : {(size + 31) / 32, size / 64}) {
      std::vector<std::uint32_t> mask(words);
      for (auto& word : mask) word = static_cast<std::uint32_t>(random());
      std::vector<float> out;
      copy_allowed(row, mask, out);
      ASSERT_EQ(out.size(), size);
      for (std::size_t i = 0; i < size; ++i) {
        const bool allowed = i / 32 < words && (mask[i / 32] >> i % 32 & 1) != 0;
        EXPECT_EQ(out[i], allowed ? row[i] : -kInf) << i;
      }
    }
  }
}

}  // namespace
}  // namespace gezel::sampling
