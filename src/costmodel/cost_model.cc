// Weighted least squares on decayed sums. Each observation is divided by its own time, so that the fit
// minimises relative errors and a 5 ms step counts as much as a 500 ms one. With three unknowns the
// non-negative optimum is found by trying every subset of coefficients (seven) and keeping the best that is
// not negative.
#include "costmodel/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace gezel::costmodel {
namespace {

constexpr double kFade = 0.98;  // weight of the past per observation: about 50 steps of memory for the shape
constexpr double kRecentWeight = 0.05;  // spec 35 section 2.4
// A pull of the constant and the slope by depth towards zero, relative to the squared weight of one
// observation. It decides only while the observations do not: one step alone is explained by its tokens.
constexpr double kRidge = 1e-6;

using Matrix = std::array<std::array<double, 3>, 3>;
using Vector = std::array<double, 3>;

// Solves the system restricted to the coefficients in `subset` (bit i = coefficient i); the others are zero.
std::optional<Vector> solve_subset(const Matrix& a, const Vector& b, unsigned subset) {
  int index[3];
  int n = 0;
  for (int i = 0; i < 3; ++i) {
    if (subset & (1U << i)) index[n++] = i;
  }
  double m[3][4];
  for (int r = 0; r < n; ++r) {
    for (int c = 0; c < n; ++c) m[r][c] = a[index[r]][index[c]];
    m[r][n] = b[index[r]];
  }
  for (int p = 0; p < n; ++p) {
    int best = p;
    for (int r = p + 1; r < n; ++r) {
      if (std::abs(m[r][p]) > std::abs(m[best][p])) best = r;
    }
    if (std::abs(m[best][p]) < 1e-300) return std::nullopt;
    if (best != p) std::swap(m[best], m[p]);
    for (int r = 0; r < n; ++r) {
      if (r == p) continue;
      const double factor = m[r][p] / m[p][p];
      for (int c = p; c <= n; ++c) m[r][c] -= factor * m[p][c];
    }
  }
  Vector out{};
  for (int p = 0; p < n; ++p) {
    out[index[p]] = m[p][n] / m[p][p];
    if (!(out[index[p]] >= 0)) return std::nullopt;  // negative or not a number
  }
  return out;
}

// k'Ak - 2 k'b: the sum of squares without its constant.
double objective(const Matrix& a, const Vector& b, const Vector& k) {
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) sum += k[i] * a[i][j] * k[j];
    sum -= 2 * k[i] * b[i];
  }
  return sum;
}

}  // namespace

void LinearFit::observe(double u, double v, double y) {
  if (!(y > 0) || !std::isfinite(y) || !std::isfinite(u) || !std::isfinite(v)) return;
  if (count_ > 0) {
    const double expected = k_[0] + k_[1] * u + k_[2] * v;
    if (expected > 0) {
      // One stalled step (a page fault, a suspended machine) must not halve every chunk after it.
      const double ratio = std::clamp(y / expected, 0.25, 4.0);
      recent_ += kRecentWeight * (ratio - recent_);
    }
  }
  const Vector x{1.0 / y, u / y, v / y};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) xx_[i][j] = xx_[i][j] * kFade + x[i] * x[j];
    xy_[i] = xy_[i] * kFade + x[i];
  }
  ++count_;
  solve();
}

void LinearFit::solve() {
  Matrix a = xx_;
  a[0][0] += kRidge * xx_[0][0];
  a[1][1] += 1e-9 * xx_[1][1];
  a[2][2] += kRidge * xx_[2][2];
  double best = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < 8; ++subset) {
    const auto candidate = solve_subset(a, xy_, subset);
    if (!candidate) continue;
    const double value = objective(a, xy_, *candidate);
    if (value < best) {
      best = value;
      k_ = *candidate;
    }
  }
}

double LinearFit::predict(double u, double v) const {
  return (k_[0] + k_[1] * u + k_[2] * v) * recent_;
}

void CostModel::observe_decode(int streams, std::int64_t depth, double ms) {
  const double s = streams;
  decode_.observe(s, s * static_cast<double>(depth), ms);
}

void CostModel::observe_prefill(std::int64_t tokens, std::int64_t depth, double ms) {
  const auto n = static_cast<double>(tokens);
  prefill_.observe(n, n * static_cast<double>(depth), ms);
}

double CostModel::decode_ms(int streams, std::int64_t depth) const {
  const double s = streams;
  return decode_.predict(s, s * static_cast<double>(depth));
}

double CostModel::prefill_ms(std::int64_t tokens, std::int64_t depth) const {
  const auto n = static_cast<double>(tokens);
  return prefill_.predict(n, n * static_cast<double>(depth));
}

std::int64_t CostModel::prefill_tokens_within(double ms, std::int64_t depth) const {
  const double fixed = prefill_ms(0, depth);
  const double per_token = prefill_ms(1, depth) - fixed;
  if (per_token <= 0) return std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int64_t>(std::clamp((ms - fixed) / per_token, 0.0, 2147483647.0) + 0.5);  // to the nearest: a fit is never exact
}

}  // namespace gezel::costmodel
