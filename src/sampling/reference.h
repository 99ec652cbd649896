// sampling/reference.h
//
// For tests: the distribution a token is drawn from, computed the slow and obvious way — adjust every logit,
// sort everything, cut — following the definitions, in double precision.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "sampling/sampler.h"

namespace gezel::sampling::reference {

struct Entry {
  double logit;
  double p;
  Token token;
};
using Distribution = std::vector<Entry>;  // most likely first

inline void normalize(Distribution& d, double temperature = 1) {
  if (d.empty()) return;
  std::sort(d.begin(), d.end(), [](const Entry& a, const Entry& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  double sum = 0;
  for (Entry& e : d) sum += e.p = std::exp((e.logit - d.front().logit) / temperature);
  for (Entry& e : d) e.p /= sum;
}

// Everything before the draw for mirostat 0; `xtc` says whether the coin fell for it.
inline Distribution distribution(const SamplingParams& params, std::span<const float> logits,
                                 std::span<const Token> history, bool xtc,
                                 std::span<const std::uint32_t> allowed = {},
                                 const std::map<Token, double>& dry = {}) {
  std::map<Token, int> counts;
  const std::size_t window =
      params.repeat_last_n < 0 ? history.size() : static_cast<std::size_t>(params.repeat_last_n);
  for (const Token token : history.last(std::min(window, history.size()))) ++counts[token];

  Distribution d;
  for (Token token = 0; token < static_cast<Token>(logits.size()); ++token) {
    const auto t = static_cast<std::size_t>(token);
    double logit = logits[t];
    if (!allowed.empty() && (allowed[t / 32] >> t % 32 & 1) == 0) continue;
    for (const auto& [biased, bias] : params.logit_bias) {
      if (biased == token) logit += bias;
    }
    if (const auto count = counts.find(token); count != counts.end()) {
      logit = logit <= 0 ? logit * params.repeat_penalty : logit / params.repeat_penalty;
      logit -= count->second * params.frequency_penalty + params.presence_penalty;
    }
    if (const auto penalty = dry.find(token); penalty != dry.end()) logit -= penalty->second;
    if (std::isfinite(logit)) d.push_back({logit, 0, token});
  }
  normalize(d);

  if (params.top_k > 0) d.resize(std::min(d.size(), static_cast<std::size_t>(params.top_k)));
  normalize(d);
  if (params.typical_p < 1 && !d.empty()) {
    double entropy = 0;
    for (const Entry& e : d) entropy -= e.p * (e.p > 0 ? std::log(e.p) : 0);
    const auto distance = [&](const Entry& e) { return std::abs(-std::log(e.p) - entropy); };
    std::sort(d.begin(), d.end(), [&](const Entry& a, const Entry& b) { return distance(a) < distance(b); });
    double sum = 0;
    std::size_t keep = 0;
    while (keep < d.size() && sum <= params.typical_p) sum += d[keep++].p;
    d.resize(keep);
    normalize(d);
  }
  if (params.top_p < 1 && !d.empty()) {
    double sum = 0;
    std::size_t keep = 0;
    do sum += d[keep++].p;
    while (keep < d.size() && sum < params.top_p);
    d.resize(keep);
    normalize(d);
  }
  if (params.min_p > 0 && !d.empty()) {
    const double least = d.front().p * std::min(params.min_p, 1.0f) * (1 - 1e-12);
    std::erase_if(d, [&](const Entry& e) { return e.p < least; });
    normalize(d);
  }
  if (xtc && params.xtc_threshold <= 0.5f) {
    std::size_t above = 0;
    while (above < d.size() && d[above].p >= params.xtc_threshold) ++above;
    if (above > 1) d.erase(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(above) - 1);
  }
  normalize(d, params.temperature);
  return d;
}

// DRY as defined, by trying every earlier position and every length.
inline std::map<Token, double> dry_penalties(const SamplingParams& params, std::span<const Token> history,
                                             const std::vector<bool>& is_breaker) {
  std::map<Token, double> penalties;
  if (params.dry_multiplier == 0 || params.dry_penalty_last_n == 0) return penalties;
  if (params.dry_penalty_last_n > 0) {
    history = history.last(std::min(history.size(), static_cast<std::size_t>(params.dry_penalty_last_n)));
  }
  const auto breaker = [&](Token t) { return is_breaker[static_cast<std::size_t>(t)]; };
  std::map<Token, int> longest;
  const int size = static_cast<int>(history.size());
  for (int end = 0; end + 1 < size; ++end) {  // an earlier occurrence ends here
    int length = 0;
    while (length <= end &&
           history[static_cast<std::size_t>(end - length)] ==
               history[static_cast<std::size_t>(size - 1 - length)] &&
           !breaker(history[static_cast<std::size_t>(size - 1 - length)])) {
      ++length;
    }
    const Token next = history[static_cast<std::size_t>(end + 1)];
    if (length >= params.dry_allowed_length && length > 0 && !breaker(next)) {
      longest[next] = std::max(longest[next], length);
    }
  }
  for (const auto& [token, length] : longest) {
    penalties[token] = params.dry_multiplier * std::pow(params.dry_base, length - params.dry_allowed_length);
  }
  return penalties;
}

}  // namespace gezel::sampling::reference
