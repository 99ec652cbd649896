// Weighted least squares on decayed sums. Each observation is divided by its own time, so that the fit
// minimises relative errors and a 5 ms step counts as much as a 500 ms one. With so few unknowns the
// non-negative optimum is found by trying every subset of coefficients (15 of four) and keeping the best that
// is not negative.
#include "costmodel/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace gezel::costmodel {
namespace {

constexpr double kFade = 0.98;  // weight of the past per observation: about 50 steps of memory for the shape
constexpr double kRecentWeight = 0.05;  // spec 35 section 2.4
// A pull of all coefficients but that of the tokens towards zero, relative to the squared weight of one
// observation. It decides only while the observations do not: one step alone is explained by its tokens.
constexpr double kRidge = 1e-6;
constexpr double kTokenRidge = 1e-9;

template <std::size_t N>
using Square = std::array<std::array<double, N>, N>;

// Solves the system restricted to the coefficients in `subset` (bit i = coefficient i); the others are zero.
template <std::size_t N>
std::optional<std::array<double, N>> solve_subset(const Square<N>& a, const std::array<double, N>& b,
                                                  unsigned subset) {
  std::size_t index[N];
  std::size_t n = 0;
  for (std::size_t i = 0; i < N; ++i) {
    if (subset & (1U << i)) index[n++] = i;
  }
  double m[N][N + 1];
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t c = 0; c < n; ++c) m[r][c] = a[index[r]][index[c]];
    m[r][n] = b[index[r]];
  }
  for (std::size_t p = 0; p < n; ++p) {
    std::size_t best = p;
    for (std::size_t r = p + 1; r < n; ++r) {
      if (std::abs(m[r][p]) > std::abs(m[best][p])) best = r;
    }
    if (std::abs(m[best][p]) < 1e-300) return std::nullopt;
    if (best != p) std::swap(m[best], m[p]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == p) continue;
      const double factor = m[r][p] / m[p][p];
      for (std::size_t c = p; c <= n; ++c) m[r][c] -= factor * m[p][c];
    }
  }
  std::array<double, N> out{};
  for (std::size_t p = 0; p < n; ++p) {
    out[index[p]] = m[p][n] / m[p][p];
    if (!(out[index[p]] >= 0)) return std::nullopt;  // negative or not a number
  }
  return out;
}

// k'Ak - 2 k'b: the sum of squares without its constant.
template <std::size_t N>
double objective(const Square<N>& a, const std::array<double, N>& b, const std::array<double, N>& k) {
  double sum = 0;
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t j = 0; j < N; ++j) sum += k[i] * a[i][j] * k[j];
    sum -= 2 * k[i] * b[i];
  }
  return sum;
}

std::array<double, 2> decode_terms(int streams, std::int64_t depth) {
  const double s = streams;
  return {s, s * static_cast<double>(depth)};
}

std::array<double, 3> prefill_terms(std::int64_t tokens, std::int64_t depth) {
  const auto n = static_cast<double>(tokens);
  const auto d = static_cast<double>(depth);
  return {n, n * d, d};
}

}  // namespace

template <std::size_t Terms>
double LinearFit<Terms>::explained(const Variables& x) const {
  double sum = k_[0];
  for (std::size_t i = 0; i < x.size(); ++i) sum += k_[i + 1] * x[i];
  return sum;
}

template <std::size_t Terms>
void LinearFit<Terms>::observe(const Variables& x, double y) {
  if (!(y > 0) || !std::isfinite(y) || !std::ranges::all_of(x, [](double v) { return std::isfinite(v); }))
    return;
  if (count_ > 0) {
    const double expected = explained(x);
    if (expected > 0) {
      // One stalled step (a page fault, a suspended machine) must not halve every chunk after it.
      const double ratio = std::clamp(y / expected, 0.25, 4.0);
      recent_ += kRecentWeight * (ratio - recent_);
    }
  }
  Vector row{1.0 / y};
  for (std::size_t i = 0; i < x.size(); ++i) row[i + 1] = x[i] / y;
  for (std::size_t i = 0; i < Terms; ++i) {
    for (std::size_t j = 0; j < Terms; ++j) xx_[i][j] = xx_[i][j] * kFade + row[i] * row[j];
    xy_[i] = xy_[i] * kFade + row[i];
  }
  ++count_;
  solve();
}

template <std::size_t Terms>
void LinearFit<Terms>::solve() {
  Square<Terms> a = xx_;
  for (std::size_t i = 0; i < Terms; ++i) a[i][i] += (i == 1 ? kTokenRidge : kRidge) * xx_[i][i];
  double best = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < (1U << Terms); ++subset) {
    const auto candidate = solve_subset<Terms>(a, xy_, subset);
    if (!candidate) continue;
    const double value = objective<Terms>(a, xy_, *candidate);
    if (value < best) {
      best = value;
      k_ = *candidate;
    }
  }
}

template <std::size_t Terms>
double LinearFit<Terms>::predict(const Variables& x) const {
  return explained(x) * recent_;
}

template class LinearFit<3>;
template class LinearFit<4>;

void CostModel::observe_decode(int streams, std::int64_t depth, double ms) {
  decode_.observe(decode_terms(streams, depth), ms);
}

void CostModel::observe_prefill(std::int64_t tokens, std::int64_t depth, double ms) {
  prefill_.observe(prefill_terms(tokens, depth), ms);
}

double CostModel::decode_ms(int streams, std::int64_t depth) const {
  return decode_.predict(decode_terms(streams, depth));
}

double CostModel::prefill_ms(std::int64_t tokens, std::int64_t depth) const {
  return prefill_.predict(prefill_terms(tokens, depth));
}

std::int64_t CostModel::prefill_tokens_within(double ms, std::int64_t depth) const {
  const double fixed = prefill_ms(0, depth);
  const double per_token = prefill_ms(1, depth) - fixed;
  if (per_token <= 0) return std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int64_t>(std::clamp((ms - fixed) / per_token, 0.0, 2147483647.0) +
                                   0.5);  // to the nearest: a fit is never exact
}

}  // namespace gezel::costmodel
