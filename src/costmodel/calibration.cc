#include "costmodel/calibration.h"

#include <algorithm>
#include <cmath>

#include "costmodel/cost_model.h"

namespace gezel::costmodel {
namespace {

// With flash attention a processor's kernel computes fewer rows than this several times slower per row (spec
// 40 section 11.12.3); one line cannot describe both.
constexpr std::int64_t kTileRows = 64;

template <std::size_t Terms>
std::vector<double> coefficients(const LinearFit<Terms>& fit) {
  if (fit.observations() == 0) return {};
  return {fit.coefficients().begin(), fit.coefficients().end()};
}

bool fits_line(const Candidate& candidate, const Point& point) {
  return point.kind == Point::Kind::decode || !candidate.setting.flash_attention || point.tokens >= kTileRows;
}

}  // namespace

Fit::Fit(const Candidate& candidate) {
  LinearFit<3> decode;
  LinearFit<4> prefill;
  for (const Sample& sample : candidate.samples) {
    if (sample.visits == 0 || !fits_line(candidate, sample.point)) continue;
    const auto n = static_cast<double>(sample.point.tokens), d = static_cast<double>(sample.point.depth);
    if (sample.point.kind == Point::Kind::decode)
      decode.observe({n, n * d}, sample.ms);
    else
      prefill.observe({n, n * d, d}, sample.ms);
  }
  decode_ = coefficients(decode);
  prefill_ = coefficients(prefill);
  for (const Sample& sample : candidate.samples) {
    if (sample.visits == 0 || !fits_line(candidate, sample.point) || sample.ms <= 0) continue;
    if (const auto predicted = ms(sample.point))
      error_ = std::max(error_, std::abs(*predicted - sample.ms) / sample.ms);
  }
}

std::optional<double> Fit::decode_ms(double streams, double depth) const {
  if (decode_.empty()) return std::nullopt;
  return decode_[0] + decode_[1] * streams + decode_[2] * streams * depth;
}

std::optional<double> Fit::prefill_ms(double tokens, double depth) const {
  if (prefill_.empty()) return std::nullopt;
  return prefill_[0] + prefill_[1] * tokens + prefill_[2] * tokens * depth + prefill_[3] * depth;
}

std::optional<double> Fit::ms(const Point& point) const {
  const auto n = static_cast<double>(point.tokens), d = static_cast<double>(point.depth);
  return point.kind == Point::Kind::decode ? decode_ms(n, d) : prefill_ms(n, d);
}

const Candidate* choose(std::span<const Candidate> candidates, std::string_view kv_type, const Mix& mix) {
  struct Known {
    const Candidate* candidate;
    double decode;
    std::optional<double> prefill;
    double total = 0;
  };
  std::vector<Known> known;
  for (const Candidate& candidate : candidates) {
    if (candidate.setting.kv_type != kv_type) continue;
    const Fit fit(candidate);
    // The middle of the answer stands for all of it.
    const auto decode = fit.decode_ms(1, mix.depth + mix.prompt + mix.decoded / 2);
    if (decode) known.push_back({&candidate, *decode * mix.decoded, fit.prefill_ms(mix.prompt, mix.depth)});
  }
  if (known.empty()) return nullptr;
  const bool reads = std::ranges::all_of(known, [](const Known& one) { return one.prefill.has_value(); });
  for (Known& one : known) one.total = one.decode + (reads ? *one.prefill : 0);
  const double best = std::ranges::min_element(known, {}, &Known::total)->total;
  std::erase_if(known, [&](const Known& one) { return one.total > best * (1 + kEqualTimes); });
  const auto before = [](const Known& a, const Known& b) {
    const auto& left = *a.candidate;
    const auto& right = *b.candidate;
    const bool comparable = left.memory > 0 && right.memory > 0;
    if (comparable && left.memory != right.memory) return left.memory < right.memory;
    if (left.setting.flash_attention != right.setting.flash_attention) return left.setting.flash_attention;
    return a.total < b.total;
  };
  return std::ranges::min_element(known, before)->candidate;
}

}  // namespace gezel::costmodel
