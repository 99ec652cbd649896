#include "kvcache/mode.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gezel::kvcache {

std::string_view name(Mode mode) {
  switch (mode) {
    case Mode::full:
      return "full";
    case Mode::window:
      return "window";
    case Mode::hybrid:
      return "hybrid";
    case Mode::recurrent:
      return "recurrent";
    case Mode::none:
      return "none";
  }
  return "";
}

Mode guess_mode(const ModelFacts& facts) {
  if (!facts.decoder || facts.diffusion) return Mode::none;
  if (facts.recurrent) return Mode::recurrent;
  if (facts.hybrid) return Mode::hybrid;
  return facts.sliding_window ? Mode::window : Mode::full;
}

LogitsComparison compare_logits(std::span<const float> cold, std::span<const float> other) {
  LogitsComparison result;
  if (cold.empty() || cold.size() != other.size()) {
    result.cold_gap = result.largest_change = std::numeric_limits<double>::infinity();
    return result;
  }
  const auto best = std::max_element(cold.begin(), cold.end());
  double second = -std::numeric_limits<double>::infinity();
  for (auto it = cold.begin(); it != cold.end(); ++it) {
    if (it != best) second = std::max(second, static_cast<double>(*it));
  }
  result.cold_gap = *best - second;
  result.same_best = std::max_element(other.begin(), other.end()) - other.begin() == best - cold.begin();
  for (std::size_t i = 0; i < cold.size(); ++i) {
    const double change = std::abs(static_cast<double>(cold[i]) - other[i]);
    // A NaN is the largest change there is.
    if (!(change <= result.largest_change)) result.largest_change = change;
    if (std::isnan(change)) {
      result.same_best = false;
      result.cold_gap = std::numeric_limits<double>::infinity();
      break;
    }
  }
  return result;
}

double measured_epsilon(std::span<const double> gaps_alone, std::span<const double> gaps_together) {
  double largest = 0;
  const std::size_t count = std::min(gaps_alone.size(), gaps_together.size());
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::abs(gaps_alone[i] - gaps_together[i]));
  return count == 0 ? kStartEpsilon : 2 * largest;
}

}  // namespace gezel::kvcache
