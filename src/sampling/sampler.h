// sampling/sampler.h
//
// From a row of logits to one token. Order: logit bias, penalties (repeat, presence, frequency), DRY, top-k,
// typical, top-p, min-p, XTC, temperature; mirostat replaces the truncations. Semantics and names are those
// of llama.cpp's server.
//
// Greedy (temperature <= 0) = highest logit after bias and penalties, lowest id on ties. One random draw per
// sampled token, from a generator of our own: the same seed and logits give the same tokens. The vocabulary
// is never sorted; every setting is linear in it, and no token allocates. NaN counts as minus infinity; a
// token at minus infinity is never chosen.
//
// A Sampler belongs to one sequence and one thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "prompt/request.h"

namespace gezel::sampling {

using Token = std::int32_t;

// prompt::SamplingOptions with every field decided. Values outside a step's range switch it off: top_k <= 0,
// top_p >= 1, min_p <= 0, typical_p >= 1, xtc_probability <= 0, xtc_threshold > 0.5, repeat_last_n 0,
// dry_multiplier 0 or dry_base < 1.
struct SamplingParams {
  float temperature = 0.8f;
  int top_k = 40;
  float top_p = 0.95f;
  float min_p = 0.05f;
  float typical_p = 1.0f;
  float repeat_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int repeat_last_n = 64;  // -1: all tokens (at most a million), for dry_penalty_last_n too
  float dry_multiplier = 0.0f;
  float dry_base = 1.75f;
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  int mirostat = 0;
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  std::uint32_t seed = 0;
  std::vector<std::pair<Token, float>> logit_bias;
  bool ignore_eos = false;
};

// Request values over the model file's `general.sampling.*` (given as `recommended`) over the defaults above.
// `random_seed` is used when the request has none.
SamplingParams resolve(const prompt::SamplingOptions& request, const prompt::SamplingOptions& recommended,
                       std::uint32_t random_seed);

// What the sampler must know of the vocabulary.
struct VocabView {
  int size = 0;
  std::vector<Token> end_of_generation;  // banned by ignore_eos
  // The text of a token (bytes), for DRY's sequence breakers. Only a Sampler with DRY calls it: once for each
  // different token that it accepts, on the thread that calls accept().
  std::function<std::string(Token)> piece;
};

struct Candidate {
  Token token = 0;
  float logprob = 0;  // natural logarithm of the probability under the plain softmax of the logits
};
struct Sampled {
  Token token = 0;
  float logprob = 0;           // when asked
  std::vector<Candidate> top;  // when asked, descending
};

class Sampler {
 public:
  Sampler(SamplingParams params, std::shared_ptr<const VocabView> vocab);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  // Makes a token part of the history that penalties and DRY look at: first the prompt's, then every sampled
  // one.
  void accept(Token token);
  void accept(std::span<const Token> tokens);
  // Chooses a token from `logits` (vocabulary size, not changed). `allowed`, when not empty, is a bit mask of
  // permitted tokens (bit t%32 of word t/32) from a constraint. Does not call accept(). `top_logprobs` < 0:
  // no log-probabilities;
  // >= 0: the token's own and that many of the best. They are of the unmodified distribution (softmax of
  // `logits`). Token -1: nothing can be chosen (the mask is empty, or every permitted logit is minus
  // infinity).
  Sampled sample(std::span<const float> logits, std::span<const std::uint32_t> allowed = {},
                 int top_logprobs = -1);
  const SamplingParams& params() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gezel::sampling
