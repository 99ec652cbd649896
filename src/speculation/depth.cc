#include "speculation/depth.h"

#include <algorithm>
#include <cmath>

namespace gezel::speculation {
namespace {

constexpr int kLossesBeforeRest = 4;
constexpr std::size_t kRestTokens = 64;
constexpr std::size_t kProbeDepth = 2;
constexpr double kHysteresis = 1.05;
constexpr double kWeight = 0.2;  // of the newest draft
constexpr double kMostAcceptance = 0.99;

double expected_tokens(double acceptance, std::size_t depth) {
  return (1 - std::pow(acceptance, static_cast<double>(depth + 1))) / (1 - acceptance);
}

// In units of a call with one row.
double expected_extra(double acceptance, std::size_t depth, const StepRatio& ratio, const DraftCosts& costs) {
  double extra = costs.per_token * static_cast<double>(depth);
  if (costs.replays) {
    const double fails = 1 - std::pow(acceptance, static_cast<double>(depth));
    const auto again = static_cast<std::size_t>(std::lround(expected_tokens(acceptance, depth)));
    extra += fails * (ratio.of(again + 1) - 1);
  }
  return extra;
}

}  // namespace

std::size_t Depth::choose(std::size_t most, int others, const StepRatio& ratio, const DraftCosts& costs) {
  if (rest_ > 0 || most == 0) return 0;
  if (probing_) return std::min(kProbeDepth, most);
  // With other runs in the step the draft is a micro-batch of its own: all of them get their token later, and
  // only one gets more.
  const auto beside = static_cast<std::size_t>(others);
  const auto gain = [&](std::size_t depth) {
    if (depth == 0) return 1.0;
    const double call = ratio.of(depth + 1) + expected_extra(acceptance_, depth, ratio, costs);
    if (others == 0) return expected_tokens(acceptance_, depth) / call;
    const double tokens = (others + expected_tokens(acceptance_, depth)) / (others + 1);
    return tokens * ratio.of(beside + 1) / (ratio.of(beside) + call);
  };
  std::size_t best = 0;
  for (std::size_t depth = 1; depth <= most; ++depth) {
    if (gain(depth) > gain(best)) best = depth;
  }
  // A better depth must be better by more than the noise of what is measured.
  const std::size_t before = std::min(last_, most);
  if (before != 0 && gain(before) > 1 && gain(best) < kHysteresis * gain(before)) best = before;
  last_ = best;
  if (best == 0) {
    // No depth pays by what is known, and without drafts nothing new is learned: ask again later.
    rest_ = kRestTokens;
  }
  return best;
}

void Depth::observe(std::size_t drafted, std::size_t accepted, double ratio) {
  // Tokens behind the first wrong one were not judged.
  const double judged = static_cast<double>(std::min(drafted, accepted + 1));
  const double share = static_cast<double>(accepted) / judged;
  const double weight = 1 - std::pow(1 - kWeight, judged / 2 + 0.5);
  acceptance_ = std::clamp(acceptance_ + weight * (share - acceptance_), 0.0, kMostAcceptance);
  probing_ = false;
  losses_ = static_cast<double>(accepted + 1) < ratio ? losses_ + 1 : 0;
  if (losses_ >= kLossesBeforeRest) {
    losses_ = 0;
    rest_ = kRestTokens;
  }
}

void Depth::passed(std::size_t tokens) {
  if (rest_ == 0) return;
  rest_ -= std::min(rest_, tokens);
  probing_ = rest_ == 0;
}

}  // namespace gezel::speculation
