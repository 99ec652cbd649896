#include <gtest/gtest.h>

#include "sampling/sampler.h"

namespace gezel::sampling {
namespace {

TEST(Resolve, RequestBeatsFileBeatsDefault) {
  prompt::SamplingOptions request, file;
  request.temperature = 0.1f;
  file.temperature = 0.2f;
  file.top_k = 64;
  const SamplingParams params = resolve(request, file, 0);
  EXPECT_EQ(params.temperature, 0.1f);
  EXPECT_EQ(params.top_k, 64);
  EXPECT_EQ(params.top_p, 0.95f);
  EXPECT_EQ(params.min_p, 0.05f);
}

TEST(Resolve, TheSeedIsTheRequestsElseTheRandomOne) {
  prompt::SamplingOptions request, file;
  file.seed = 1;
  EXPECT_EQ(resolve(request, file, 77).seed, 77u);
  request.seed = 5;
  EXPECT_EQ(resolve(request, file, 77).seed, 5u);
}

TEST(Resolve, EveryFieldArrivesFromRequestAndFile) {
  prompt::SamplingOptions options;
  options.temperature = 1.1f;
  options.top_k = 2;
  options.top_p = 0.3f;
  options.min_p = 0.4f;
  options.typical_p = 0.5f;
  options.repeat_penalty = 1.6f;
  options.presence_penalty = 0.7f;
  options.frequency_penalty = 0.8f;
  options.repeat_last_n = 9;
  options.dry_multiplier = 1.0f;
  options.dry_base = 1.1f;
  options.dry_allowed_length = 12;
  options.dry_penalty_last_n = 13;
  options.xtc_probability = 0.14f;
  options.xtc_threshold = 0.15f;
  options.mirostat = 2;
  options.mirostat_tau = 1.7f;
  options.mirostat_eta = 0.18f;
  options.dry_sequence_breakers = {{"x"}};
  for (const SamplingParams& params : {resolve(options, {}, 0), resolve({}, options, 0)}) {
    EXPECT_EQ(params.temperature, 1.1f);
    EXPECT_EQ(params.top_k, 2);
    EXPECT_EQ(params.top_p, 0.3f);
    EXPECT_EQ(params.min_p, 0.4f);
    EXPECT_EQ(params.typical_p, 0.5f);
    EXPECT_EQ(params.repeat_penalty, 1.6f);
    EXPECT_EQ(params.presence_penalty, 0.7f);
    EXPECT_EQ(params.frequency_penalty, 0.8f);
    EXPECT_EQ(params.repeat_last_n, 9);
    EXPECT_EQ(params.dry_multiplier, 1.0f);
    EXPECT_EQ(params.dry_base, 1.1f);
    EXPECT_EQ(params.dry_allowed_length, 12);
    EXPECT_EQ(params.dry_penalty_last_n, 13);
    EXPECT_EQ(params.xtc_probability, 0.14f);
    EXPECT_EQ(params.xtc_threshold, 0.15f);
    EXPECT_EQ(params.mirostat, 2);
    EXPECT_EQ(params.mirostat_tau, 1.7f);
    EXPECT_EQ(params.mirostat_eta, 0.18f);
    EXPECT_EQ(params.dry_sequence_breakers, std::vector<std::string>{"x"});
  }
}

TEST(Resolve, BiasAndIgnoreEosAreTheRequestsAlone) {
  prompt::SamplingOptions options;
  options.logit_bias = {{1, 2.0f}};
  options.ignore_eos = true;
  EXPECT_EQ(resolve(options, {}, 0).logit_bias, options.logit_bias);
  EXPECT_TRUE(resolve(options, {}, 0).ignore_eos);
  EXPECT_TRUE(resolve({}, options, 0).logit_bias.empty());
  EXPECT_FALSE(resolve({}, options, 0).ignore_eos);
}

}  // namespace
}  // namespace gezel::sampling
