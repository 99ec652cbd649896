// costmodel/cost_model.h
//
// How long one call of the engine takes, learned from the calls it made (spec 35 section 2.4):
//   decode   a + c*s + e*s*D    s streams of one token each, D tokens deep the deepest
//   prefill  a + b*n + e*n*d + f*d    n tokens of one prompt at depth d
// The last term is what a call pays to read the cells before it, however few tokens it computes: half of a
// call of four tokens at depth 5,000 (measured; spec 35 has the first three terms). Coefficients are never
// negative. Old observations fade, so that throttling and busy neighbours are followed. Pure.
#pragma once
#include <array>
#include <cstdint>

namespace gezel::costmodel {

// One fit of y = k0 + k1*x1 + k2*x2 + ... with non-negative coefficients, by least squares of the relative
// error. `Terms` counts the constant.
template <std::size_t Terms>
class LinearFit {
 public:
  using Vector = std::array<double, Terms>;
  using Variables = std::array<double, Terms - 1>;
  void observe(const Variables& x, double y);
  double predict(const Variables& x) const;
  std::uint64_t observations() const { return count_; }
  const Vector& coefficients() const { return k_; }

 private:
  double explained(const Variables& x) const;
  void solve();
  std::array<Vector, Terms> xx_{};  // decayed sums of the weighted products
  Vector xy_{};
  Vector k_{};
  double recent_ = 1.0;  // measured / predicted, exponential average: follows changes faster than the sums
  std::uint64_t count_ = 0;
};

class CostModel {
 public:
  void observe_decode(int streams, std::int64_t depth, double ms);
  void observe_prefill(std::int64_t tokens, std::int64_t depth, double ms);

  bool knows_decode() const { return decode_.observations() > 0; }
  bool knows_prefill() const { return prefill_.observations() > 0; }
  // Predicted milliseconds; 0 while nothing was observed.
  double decode_ms(int streams, std::int64_t depth) const;
  double prefill_ms(std::int64_t tokens, std::int64_t depth) const;
  // The most tokens at `depth` whose call is predicted to end within `ms` (>= 0).
  std::int64_t prefill_tokens_within(double ms, std::int64_t depth) const;

  const LinearFit<3>& decode_fit() const { return decode_; }
  const LinearFit<4>& prefill_fit() const { return prefill_; }

 private:
  LinearFit<3> decode_;
  LinearFit<4> prefill_;
};

}  // namespace gezel::costmodel
