#include "sampling/sampler.h"

namespace gezel::sampling {

SamplingParams resolve(const prompt::SamplingOptions& request, const prompt::SamplingOptions& recommended,
                       std::uint32_t random_seed) {
  SamplingParams params;
  const auto decide = [&](auto& value, auto prompt::SamplingOptions::* field) {
    if (const auto& asked = request.*field) {
      value = *asked;
    } else if (const auto& advised = recommended.*field) {
      value = *advised;
    }
  };
  using Options = prompt::SamplingOptions;
  decide(params.temperature, &Options::temperature);
  decide(params.top_k, &Options::top_k);
  decide(params.top_p, &Options::top_p);
  decide(params.min_p, &Options::min_p);
  decide(params.typical_p, &Options::typical_p);
  decide(params.repeat_penalty, &Options::repeat_penalty);
  decide(params.presence_penalty, &Options::presence_penalty);
  decide(params.frequency_penalty, &Options::frequency_penalty);
  decide(params.repeat_last_n, &Options::repeat_last_n);
  decide(params.dry_multiplier, &Options::dry_multiplier);
  decide(params.dry_base, &Options::dry_base);
  decide(params.dry_allowed_length, &Options::dry_allowed_length);
  decide(params.dry_penalty_last_n, &Options::dry_penalty_last_n);
  decide(params.dry_sequence_breakers, &Options::dry_sequence_breakers);
  decide(params.xtc_probability, &Options::xtc_probability);
  decide(params.xtc_threshold, &Options::xtc_threshold);
  decide(params.mirostat, &Options::mirostat);
  decide(params.mirostat_tau, &Options::mirostat_tau);
  decide(params.mirostat_eta, &Options::mirostat_eta);
  params.seed = request.seed.value_or(random_seed);
  params.logit_bias = request.logit_bias;
  params.ignore_eos = request.ignore_eos;
  return params;
}

}  // namespace gezel::sampling
