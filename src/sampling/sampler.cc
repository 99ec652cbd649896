// One token takes: at most one pass that copies and patches the row (only when something changes it), one
// pass for the block maxima, and then work on few candidates. Which passes come after depends on what narrows
// the choice first:
//
//   greedy          the maximum is known; find its first place
//   top-k           take_top_k
//   min-p, top-p    a threshold below the maximum; top-p also needs the sum of all weights, one more pass
//   none of them    one pass of weights by block; the draw picks a block, then a token in it
//   typical, XTC    without top-k: every token is a candidate (linear, but many)
#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "sampling/candidates.h"
#include "sampling/dry.h"
#include "sampling/history.h"
#include "sampling/kernels.h"
#include "sampling/random.h"

namespace gezel::sampling {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 256;           // where no search inside blocks follows
constexpr std::size_t kThresholdBlock = 64;   // where it does
constexpr float kWholeRow = 100;              // a token this far below the maximum has no weight
constexpr std::size_t kMirostatTokens = 100;  // the m of mirostat 1, as in llama.cpp
// Up to this many candidates the draw walks them from the most to the least likely one: then a tiny
// difference between two logits, as different batch sizes cause, moves the outcome for a seed as little as
// possible.
constexpr std::size_t kOrderedDraw = 512;

// One random draw decides everything about one token: where in the distribution, and whether XTC acts.
struct Draw {
  double position;  // [0, 1)
  double coin;      // [0, 1)
  explicit Draw(Random& random) {
    const std::uint64_t bits = random.next();
    position = unit_interval(bits);
    coin = unit_interval(scramble(bits ^ 0x9e3779b97f4a7c15u));
  }
};

// The lowest id whose logit is the row's maximum.
Token first_maximum(const ScannedRow& scanned) {
  const auto block = std::find(scanned.maxima.begin(), scanned.maxima.end(), scanned.max);
  const auto from =
      scanned.row.begin() + (block - scanned.maxima.begin()) * static_cast<std::ptrdiff_t>(scanned.block);
  return static_cast<Token>(std::find(from, scanned.row.end(), scanned.max) - scanned.row.begin());
}

}  // namespace

struct Sampler::Impl {
  Impl(SamplingParams p, std::shared_ptr<const VocabView> v);

  void accept(Token token);
  Sampled sample(std::span<const float> logits, std::span<const std::uint32_t> allowed, int top_logprobs);

  std::span<const float> adjust(std::span<const float> logits, std::span<const std::uint32_t> allowed);
  void scan(std::span<const float> row, std::size_t block);
  Token choose(std::span<const float> row);
  void narrow(const Draw& draw);
  void take_weighed(float threshold);
  void take_top_p();
  void take_typical();
  Token draw_from_row(const Draw& draw);
  Weighted draw_from_candidates(const Draw& draw);
  Token mirostat_1(const Draw& draw);
  Token mirostat_2(const Draw& draw);
  Token mirostat_draw(const Draw& draw);
  void add_logprobs(std::span<const float> logits, int count, Sampled& sampled);

  bool has_top_k() const {
    return params.top_k > 0 && static_cast<std::size_t>(params.top_k) < scanned.row.size();
  }
  bool has_top_p() const { return params.top_p < 1; }
  bool has_min_p() const { return params.min_p > 0; }
  bool has_typical() const { return params.typical_p < 1; }
  bool has_xtc() const { return params.xtc_probability > 0 && params.xtc_threshold <= 0.5f; }
  bool has_penalties() const {
    return params.repeat_last_n != 0 &&
           (params.repeat_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0);
  }
  // Finite, so that the distance 0 of the maximum stays 0 at the lowest temperature.
  float inverse_temperature() const {
    return std::min(1.0f / params.temperature, std::numeric_limits<float>::max());
  }

  SamplingParams params;
  std::shared_ptr<const VocabView> vocab;
  std::vector<std::pair<Token, float>> biases;  // logit_bias and, with ignore_eos, the bans
  TokenCounts counts;
  std::optional<Dry> dry;
  Random random;
  float mu = 0;  // mirostat's running limit on surprise, in bits

  // Scratch, kept between tokens so that none allocates.
  std::vector<float> patched, maxima, sums, block_weights, select_scratch;
  Candidates candidates, best;
  ScannedRow scanned;
};

Sampler::Impl::Impl(SamplingParams p, std::shared_ptr<const VocabView> v)
    : params(std::move(p)), vocab(std::move(v)), counts(0), random(params.seed), mu(2 * params.mirostat_tau) {
  // A repeat penalty divides; nothing but a positive number makes sense.
  if (!(params.repeat_penalty > 0) || !std::isfinite(params.repeat_penalty)) params.repeat_penalty = 1;
  biases = params.logit_bias;
  if (params.ignore_eos) {
    for (const Token token : vocab->end_of_generation) biases.emplace_back(token, kNone);
  }
  if (has_penalties()) counts = TokenCounts(window_tokens(params.repeat_last_n));
  DryParams dry_params{params.dry_multiplier, params.dry_base, params.dry_allowed_length,
                       params.dry_penalty_last_n, params.dry_sequence_breakers};
  if (dry_params.enabled()) dry.emplace(std::move(dry_params), vocab->piece);
}

void Sampler::Impl::accept(Token token) {
  counts.push(token);
  if (dry) dry->accept(token);
}

// What the choice is made from: `logits` itself when nothing changes it, else a patched copy.
std::span<const float> Sampler::Impl::adjust(std::span<const float> logits,
                                             std::span<const std::uint32_t> allowed) {
  const auto repeated = dry ? dry->penalties() : std::span<const std::pair<Token, float>>();
  if (biases.empty() && counts.counts().empty() && repeated.empty() && allowed.empty()) return logits;

  if (allowed.empty()) {
    patched.assign(logits.begin(), logits.end());
  } else {
    copy_allowed(logits, allowed, patched);
  }
  const auto logit_of = [&](Token token) -> float* {
    const auto index = static_cast<std::size_t>(token);
    return token >= 0 && index < patched.size() ? &patched[index] : nullptr;
  };
  for (const auto& [token, bias] : biases) {
    // What is not allowed stays so, even against an infinite bias.
    float* logit = logit_of(token);
    if (logit != nullptr && *logit != kNone) *logit += bias;
  }
  for (const auto& [token, count] : counts.counts()) {
    float* logit = logit_of(token);
    if (logit == nullptr) continue;
    // Dividing a negative logit would make the token more likely.
    *logit = *logit > 0 ? *logit / params.repeat_penalty : *logit * params.repeat_penalty;
    *logit -= static_cast<float>(count) * params.frequency_penalty + params.presence_penalty;
  }
  for (const auto& [token, penalty] : repeated) {
    if (float* logit = logit_of(token)) *logit -= penalty;
  }
  return patched;
}

void Sampler::Impl::scan(std::span<const float> row, std::size_t block) {
  const float max = block_maxima(row, block, maxima);
  scanned = {row, maxima, block, max};
}

Token Sampler::Impl::choose(std::span<const float> row) {
  const bool greedy = !(params.temperature > 0);
  const bool top_k_first = !greedy && params.mirostat == 0 && params.top_k > 0;
  const bool search = !greedy && (params.mirostat != 0 || has_min_p() || has_top_p() || has_typical());
  scan(row, top_k_first ? block_for_top_k(row.size(), static_cast<std::size_t>(params.top_k))
            : search    ? kThresholdBlock
                        : kBlock);
  if (scanned.max == kNone) return -1;
  if (greedy || std::isinf(scanned.max)) return first_maximum(scanned);

  const Draw draw(random);
  if (params.mirostat == 1) return mirostat_1(draw);
  if (params.mirostat == 2) return mirostat_2(draw);
  if (!has_top_k() && !has_top_p() && !has_min_p() && !has_typical() && !has_xtc())
    return draw_from_row(draw);
  narrow(draw);
  return draw_from_candidates(draw).token;
}

// Leaves in `candidates` what top-k, typical, top-p, min-p and XTC leave.
void Sampler::Impl::narrow(const Draw& draw) {
  if (has_top_k()) {
    take_top_k(scanned, static_cast<std::size_t>(params.top_k), select_scratch, candidates);
    weigh(candidates, scanned.max, 1);
    if (has_typical())
      keep_typical(candidates, params.typical_p, moments_of(candidates, scanned.max), scanned.max);
    if (has_top_p()) keep_top_p(candidates, params.top_p, total_weight(candidates));
  } else if (has_typical()) {
    take_typical();
    if (has_top_p()) keep_top_p(candidates, params.top_p, total_weight(candidates));
  } else if (has_top_p() || has_min_p()) {
    take_top_p();
  } else {
    take_weighed(kNone);
  }
  if (has_min_p()) keep_min_p(candidates, params.min_p);
  if (has_xtc() && draw.coin < params.xtc_probability) exclude_top_choices(candidates, params.xtc_threshold);
}

void Sampler::Impl::take_weighed(float threshold) {
  take_above(scanned, threshold, candidates);
  weigh(candidates, scanned.max, 1);
}

// Top-p over the whole row. It keeps a prefix of the tokens in descending order, and so does min-p after it:
// so tokens that min-p would drop need not be looked at. Without min-p the search goes down in growing steps
// until it has enough.
void Sampler::Impl::take_top_p() {
  if (has_min_p()) take_weighed(scanned.max + std::log(std::min(params.min_p, 1.0f)));
  if (!has_top_p()) return;
  const double total = block_exp_sums(scanned.row, kBlock, scanned.max, 1, sums);
  if (!has_min_p()) {
    for (float reach = 6;; reach *= 2) {
      take_weighed(reach < kWholeRow ? scanned.max - reach : kNone);
      if (reach >= kWholeRow || total_weight(candidates) >= params.top_p * total) break;
    }
  }
  keep_top_p(candidates, params.top_p, total);
}

// Typical over the whole row: the tokens in a band around the entropy, which grows until it holds enough.
void Sampler::Impl::take_typical() {
  const Moments moments = exp_moments(scanned.row, scanned.max);
  const auto center = static_cast<float>(scanned.max + moments.mean);
  for (float reach = 2;; reach *= 2) {
    take_weighed(reach < kWholeRow ? center - reach : kNone);
    if (reach >= kWholeRow) break;
    std::erase_if(candidates, [&](const Weighted& candidate) { return candidate.logit > center + reach; });
    if (total_weight(candidates) > params.typical_p * moments.total) break;
  }
  keep_typical(candidates, params.typical_p, moments, scanned.max);
}

// A draw from all tokens: the sums of the blocks lead to a block, its weights to the token.
Token Sampler::Impl::draw_from_row(const Draw& draw) {
  const double total = block_exp_sums(scanned.row, kBlock, scanned.max, inverse_temperature(), sums);
  double left = draw.position * total;
  std::size_t index = 0;
  while (index + 1 < sums.size() && left >= sums[index]) left -= sums[index++];

  const std::size_t begin = index * kBlock;
  const auto block = scanned.row.subspan(begin, std::min(kBlock, scanned.row.size() - begin));
  block_weights.resize(block.size());
  exp_values(block, scanned.max, inverse_temperature(), block_weights.data());
  Token chosen = -1;
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (!(block[i] > kNone)) continue;
    chosen = static_cast<Token>(begin + i);  // rounding may leave a little: then the last one
    left -= block_weights[i];
    if (left < 0) break;
  }
  return chosen >= 0 ? chosen : first_maximum(scanned);
}

// The weight of the result is its probability.
Weighted Sampler::Impl::draw_from_candidates(const Draw& draw) {
  if (candidates.size() <= kOrderedDraw) std::sort(candidates.begin(), candidates.end(), better);
  float max = kNone;
  for (const Weighted& candidate : candidates) max = std::max(max, candidate.logit);
  weigh(candidates, max, inverse_temperature());
  double left = draw.position * total_weight(candidates);
  for (const Weighted& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0) return candidate;
  }
  return *std::find_if(candidates.rbegin(), candidates.rend(),
                       [](const Weighted& c) { return c.weight > 0; });
}

// Mirostat (Basu et al., ICLR 2021), version 1: the Zipf exponent of the most likely tokens gives the k for a
// top-k that makes the expected surprise mu.
Token Sampler::Impl::mirostat_1(const Draw& draw) {
  take_top_k(scanned, kMirostatTokens, select_scratch, candidates);
  std::sort(candidates.begin(), candidates.end(), better);
  double products = 0, squares = 0;
  for (std::size_t i = 0; i + 1 < candidates.size(); ++i) {
    const double rank = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double ratio =
        (candidates[i].logit - candidates[i + 1].logit) * inverse_temperature();  // ln(p[i] / p[i+1])
    products += rank * ratio;
    squares += rank * rank;
  }
  const double exponent = products / squares;
  const double excess = exponent - 1;
  const double size = static_cast<double>(scanned.row.size());
  const double k = std::pow(excess * std::exp2(mu) / (1 - std::pow(size, -excess)), 1 / exponent);
  // No number (fewer than two candidates): only the best.
  take_top_k(scanned, std::isnan(k) ? 1 : static_cast<std::size_t>(std::clamp(k, 1.0, size)), select_scratch,
             candidates);
  return mirostat_draw(draw);
}

// Version 2: tokens of more than mu bits of surprise are dropped.
Token Sampler::Impl::mirostat_2(const Draw& draw) {
  const double total = block_exp_sums(scanned.row, kBlock, scanned.max, inverse_temperature(), sums);
  // -log2(exp((l - max) / T) / total) <= mu, solved for l - max.
  const double distance = (std::log(total) - mu * std::numbers::ln2) * params.temperature;
  if (distance < 0) {
    take_above(scanned, static_cast<float>(scanned.max + distance), candidates);
  } else {
    take_top_k(scanned, 1, select_scratch, candidates);  // even the best is more surprising than that
  }
  return mirostat_draw(draw);
}

Token Sampler::Impl::mirostat_draw(const Draw& draw) {
  const Weighted chosen = draw_from_candidates(draw);
  mu -= params.mirostat_eta * (-std::log2(chosen.weight) - params.mirostat_tau);
  return chosen.token;
}

void Sampler::Impl::add_logprobs(std::span<const float> logits, int count, Sampled& sampled) {
  const auto wanted = std::min(static_cast<std::size_t>(count), logits.size());
  scan(logits, block_for_top_k(logits.size(), wanted));
  if (scanned.max == kNone) {
    sampled.logprob = kNone;
    return;
  }
  const double log_total =
      std::isinf(scanned.max) ? 0 : std::log(block_exp_sums(logits, kBlock, scanned.max, 1, sums));
  const auto logprob = [&](float logit) {
    if (std::isinf(scanned.max)) return logit == scanned.max ? 0.0f : kNone;
    return logit > kNone ? static_cast<float>(logit - scanned.max - log_total) : kNone;
  };
  if (sampled.token >= 0) sampled.logprob = logprob(logits[static_cast<std::size_t>(sampled.token)]);
  if (wanted == 0) return;
  take_top_k(scanned, wanted, select_scratch, best);
  std::sort(best.begin(), best.end(), better);
  for (const Weighted& candidate : best) sampled.top.push_back({candidate.token, logprob(candidate.logit)});
}

Sampled Sampler::Impl::sample(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                              int top_logprobs) {
  Sampled sampled{.token = -1};
  if (logits.empty()) return sampled;
  sampled.token = choose(adjust(logits, allowed));
  if (top_logprobs >= 0) add_logprobs(logits, top_logprobs, sampled);
  return sampled;
}

Sampler::Sampler(SamplingParams params, std::shared_ptr<const VocabView> vocab)
    : impl_(std::make_unique<Impl>(std::move(params), std::move(vocab))) {}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

void Sampler::accept(Token token) {
  impl_->accept(token);
}
void Sampler::accept(std::span<const Token> tokens) {
  for (const Token token : tokens) impl_->accept(token);
}
Sampled Sampler::sample(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                        int top_logprobs) {
  return impl_->sample(logits, allowed, top_logprobs);
}
const SamplingParams& Sampler::params() const {
  return impl_->params;
}

}  // namespace gezel::sampling
