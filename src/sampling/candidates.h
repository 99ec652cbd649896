// sampling/candidates.h
//
// The few tokens that can still be chosen, and the steps that make them fewer. Each step is the one of
// llama.cpp's server of the same name, without its sorting: the sets are the same, and where it leaves ties
// open the lower id wins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/kernels.h"

namespace gezel::sampling {

struct Weighted {
  float logit = 0;   // finite
  float weight = 0;  // set by weigh(): a probability up to a common factor
  std::int32_t token = 0;
};
using Candidates = std::vector<Weighted>;

// The order of every choice: the higher logit, then the lower id.
inline bool better(const Weighted& a, const Weighted& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// A row of logits with the maximum of each block of it, which lets a search skip nearly all of the row.
struct ScannedRow {
  std::span<const float> row;
  std::span<const float> maxima;
  std::size_t block = 0;
  float max = 0;  // finite
};

// A block size with which take_top_k() on a row of `size` is fast.
std::size_t block_for_top_k(std::size_t size, std::size_t k);

// The k best tokens of the row with a finite logit, in no particular order and not weighed. Linear.
void take_top_k(const ScannedRow& scanned, std::size_t k, std::vector<float>& scratch, Candidates& out);
// Every token with a finite logit of at least `threshold`, by ascending id and not weighed. Linear; a block
// below it costs one comparison.
void take_above(const ScannedRow& scanned, float threshold, Candidates& out);

// Sets every weight to exp((logit - max) * scale).
void weigh(Candidates& candidates, float max, float scale);
double total_weight(const Candidates& candidates);
// Total weight and mean of logit - max under the weights at scale 1.
Moments moments_of(const Candidates& candidates, float max);

// Keeps the smallest set of the most likely tokens whose weight is at least `p * total`; all when it is never
// reached.
void keep_top_p(Candidates& candidates, float p, double total);
// Keeps tokens at least `p` times as likely as the most likely one.
void keep_min_p(Candidates& candidates, float p);
// Keeps the smallest set of tokens whose information content is closest to the distribution's entropy and
// whose probability is above `p` (Meister et al., "Locally typical sampling", TACL 2023). `moments` and `max`
// are of the whole distribution.
void keep_typical(Candidates& candidates, float p, const Moments& moments, float max);
// Removes every token of probability >= threshold but the least likely of them.
void exclude_top_choices(Candidates& candidates, float threshold);

}  // namespace gezel::sampling
