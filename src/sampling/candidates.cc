#include "sampling/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace gezel::sampling {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Length of the shortest prefix, in the order of `before`, whose weight satisfies `reached`; the prefix is
// moved to the front. Halving with nth_element keeps it linear: each round looks at half of what the round
// before looked at.
template <class Before, class Reached>
std::size_t shortest_prefix(Candidates& candidates, Before&& before, Reached&& reached) {
  constexpr std::ptrdiff_t kSortBelow = 64;
  auto begin = candidates.begin(), end = candidates.end();
  double weight = 0;  // of everything in front of `begin`
  while (end - begin > kSortBelow) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, before);
    double upper = 0;
    for (auto it = begin; it != middle; ++it) upper += it->weight;
    if (reached(weight + upper)) {
      end = middle;
    } else {
      weight += upper;
      begin = middle;
    }
  }
  std::sort(begin, end, before);
  for (; begin != end; ++begin) {
    weight += begin->weight;
    if (reached(weight)) return static_cast<std::size_t>(begin - candidates.begin()) + 1;
  }
  return static_cast<std::size_t>(end - candidates.begin());
}

// Appends the finite values of one block that are at least `threshold`.
void take_from_block(const ScannedRow& scanned, std::size_t index, float threshold, Candidates& out) {
  const std::size_t begin = index * scanned.block;
  const std::size_t end = std::min(begin + scanned.block, scanned.row.size());
  for (std::size_t i = begin; i < end; ++i) {
    const float logit = scanned.row[i];
    if (logit >= threshold) [[unlikely]]
      out.push_back({logit, 0, static_cast<std::int32_t>(i)});
  }
}

// Only finite values: the lowest threshold is the lowest finite number.
float finite(float threshold) {
  return std::max(threshold, std::numeric_limits<float>::lowest());
}

}  // namespace

std::size_t block_for_top_k(std::size_t size, std::size_t k) {
  // About 16 blocks a wanted token: more would make choosing among the maxima the larger part, fewer the
  // search in blocks.
  return std::clamp<std::size_t>(
      std::bit_floor(std::max<std::size_t>(size / (16 * std::max<std::size_t>(k, 1)), 1)), 16, 512);
}

void take_top_k(const ScannedRow& scanned, std::size_t k, std::vector<float>& scratch, Candidates& out) {
  out.clear();
  // Each of the k blocks with the highest maxima has a value of at least the k-th of these maxima; so the k
  // best values are not below it, and blocks with a lower maximum have none of them.
  float threshold = kNone;
  if (k < scanned.maxima.size()) {
    scratch.assign(scanned.maxima.begin(), scanned.maxima.end());
    const auto kth = scratch.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(scratch.begin(), kth, scratch.end(), std::greater<>());
    threshold = *kth;
  }
  threshold = finite(threshold);
  for (std::size_t index = 0; index < scanned.maxima.size(); ++index) {
    if (scanned.maxima[index] >= threshold) take_from_block(scanned, index, threshold, out);
  }
  if (out.size() > k) {
    std::nth_element(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(k), out.end(), better);
    out.resize(k);
  }
}

void take_above(const ScannedRow& scanned, float threshold, Candidates& out) {
  out.clear();
  threshold = finite(threshold);
  for (std::size_t index = 0; index < scanned.maxima.size(); ++index) {
    if (scanned.maxima[index] >= threshold) take_from_block(scanned, index, threshold, out);
  }
}

void weigh(Candidates& candidates, float max, float scale) {
  constexpr std::size_t kChunk = 64;
  float values[kChunk];
  for (std::size_t at = 0; at < candidates.size(); at += kChunk) {
    const std::size_t size = std::min(kChunk, candidates.size() - at);
    for (std::size_t i = 0; i < size; ++i) values[i] = candidates[at + i].logit;
    exp_values(std::span(values, size), max, scale, values);
    for (std::size_t i = 0; i < size; ++i) candidates[at + i].weight = values[i];
  }
}

double total_weight(const Candidates& candidates) {
  double total = 0;
  for (const Weighted& candidate : candidates) total += candidate.weight;
  return total;
}

void keep_top_p(Candidates& candidates, float p, double total) {
  const double wanted = static_cast<double>(p) * total;
  candidates.resize(shortest_prefix(candidates, better, [&](double weight) { return weight >= wanted; }));
}

void keep_min_p(Candidates& candidates, float p) {
  float max = kNone;
  for (const Weighted& candidate : candidates) max = std::max(max, candidate.logit);
  const float threshold = max + std::log(std::min(p, 1.0f));
  std::erase_if(candidates, [&](const Weighted& candidate) { return candidate.logit < threshold; });
}

Moments moments_of(const Candidates& candidates, float max) {
  double total = 0, logs = 0;
  for (const Weighted& candidate : candidates) {
    total += candidate.weight;
    logs += static_cast<double>(candidate.weight) * (candidate.logit - max);
  }
  return {total, logs / total};
}

void keep_typical(Candidates& candidates, float p, const Moments& moments, float max) {
  // A token's information content is -ln(weight / total) = ln(total) - ln(weight), and the entropy is the
  // mean of that. So its distance from the entropy is |mean of ln(weight) - ln(weight)|; ln(weight) is logit
  // - max.
  const auto more_typical = [center = moments.mean + max](const Weighted& a, const Weighted& b) {
    const double distance_a = std::abs(center - a.logit), distance_b = std::abs(center - b.logit);
    return distance_a != distance_b ? distance_a < distance_b : better(a, b);
  };
  const double wanted = static_cast<double>(p) * moments.total;
  candidates.resize(
      shortest_prefix(candidates, more_typical, [&](double weight) { return weight > wanted; }));
}

void exclude_top_choices(Candidates& candidates, float threshold) {
  const double wanted = static_cast<double>(threshold) * total_weight(candidates);
  const Weighted* least = nullptr;
  for (const Weighted& candidate : candidates) {
    if (candidate.weight >= wanted && (least == nullptr || better(*least, candidate))) least = &candidate;
  }
  if (least == nullptr) return;
  const Weighted last = *least;
  std::erase_if(candidates, [&](const Weighted& candidate) {
    return candidate.weight >= wanted && better(candidate, last);
  });
}

}  // namespace gezel::sampling
