#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "sampling/reference.h"

namespace gezel::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const SamplingParams kOff{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

std::shared_ptr<const VocabView> vocabulary(int size, std::vector<Token> end_of_generation = {}) {
  return std::make_shared<VocabView>(VocabView{size, std::move(end_of_generation), [](Token token) {
                                                 return token % 10 == 0 ? std::string("\n") : "w";
                                               }});
}

std::vector<float> random_logits(std::size_t size, unsigned seed, float spread = 2) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::vector<Token> random_history(int length, int distinct, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Token> history;
  for (int i = 0; i < length; ++i)
    history.push_back(static_cast<Token>(random() % static_cast<unsigned>(distinct)));
  return history;
}

// How often each token comes out of `draws` draws.
std::map<Token, int> frequencies(SamplingParams params, const std::vector<float>& logits,
                                 const std::vector<Token>& history, int draws,
                                 std::span<const std::uint32_t> allowed = {}) {
  Sampler sampler(std::move(params), vocabulary(static_cast<int>(logits.size())));
  sampler.accept(history);
  std::map<Token, int> seen;
  for (int i = 0; i < draws; ++i) ++seen[sampler.sample(logits, allowed).token];
  return seen;
}

// The observed frequencies fit the distribution: nothing outside it is drawn, and the chi-squared statistic,
// with rare tokens pooled, lies within five standard deviations of its mean. Seeds are fixed, so the outcome
// is too.
void expect_fits(const std::map<Token, int>& seen, const std::map<Token, double>& expected, int draws) {
  double chi = 0, pooled_expected = 0;
  int pooled_seen = 0, cells = 0;
  for (const auto& [token, count] : seen) {
    EXPECT_TRUE(expected.contains(token))
        << "token " << token << " is outside the distribution, drawn " << count;
  }
  for (const auto& [token, p] : expected) {
    const auto it = seen.find(token);
    const int count = it == seen.end() ? 0 : it->second;
    if (p * draws < 8) {
      pooled_expected += p * draws, pooled_seen += count;
      continue;
    }
    chi += (count - p * draws) * (count - p * draws) / (p * draws);
    ++cells;
  }
  if (pooled_expected > 8)
    chi += (pooled_seen - pooled_expected) * (pooled_seen - pooled_expected) / pooled_expected, ++cells;
  EXPECT_LT(chi, cells + 5 * std::sqrt(2.0 * cells) + 5);
}

struct Case {
  std::string name;
  SamplingParams params;
};

SamplingParams with(auto&& change, SamplingParams params = kOff) {
  change(params);
  return params;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"off", kOff},
      {"defaults", {}},
      {"temperature", with([](auto& p) { p.temperature = 0.5f; })},
      {"hot", with([](auto& p) { p.temperature = 3; })},
      {"top_k", with([](auto& p) { p.top_k = 7; })},
      {"top_k_1", with([](auto& p) { p.top_k = 1; })},
      {"top_k_larger_than_the_vocabulary", with([](auto& p) { p.top_k = 100'000; })},
      {"top_p", with([](auto& p) { p.top_p = 0.7f; })},
      {"top_p_0", with([](auto& p) { p.top_p = 0; })},
      {"top_p_almost_1", with([](auto& p) { p.top_p = 0.9999f; })},
      {"min_p", with([](auto& p) { p.min_p = 0.1f; })},
      {"min_p_above_1", with([](auto& p) { p.min_p = 1.5f; })},
      {"top_p_and_min_p", with([](auto& p) { p.top_p = 0.8f, p.min_p = 0.02f; })},
      {"typical", with([](auto& p) { p.typical_p = 0.6f; })},
      {"typical_after_top_k", with([](auto& p) { p.typical_p = 0.6f, p.top_k = 20; })},
      {"typical_top_p_min_p", with([](auto& p) { p.typical_p = 0.9f, p.top_p = 0.8f, p.min_p = 0.1f; })},
      {"xtc_always", with([](auto& p) { p.xtc_probability = 1, p.xtc_threshold = 0.05f; })},
      {"xtc_after_min_p",
       with([](auto& p) { p.xtc_probability = 1, p.xtc_threshold = 0.05f, p.min_p = 0.1f; })},
      {"xtc_above_half_is_off", with([](auto& p) { p.xtc_probability = 1, p.xtc_threshold = 0.6f; })},
      {"bias",
       with([](auto& p) { p.logit_bias = {{3, 2.5f}, {3, 0.5f}, {4, -kInf}, {-1, 9}, {1 << 20, 9}}; })},
      {"repeat", with([](auto& p) { p.repeat_penalty = 1.3f; })},
      {"presence", with([](auto& p) { p.presence_penalty = 0.8f; })},
      {"frequency", with([](auto& p) { p.frequency_penalty = 0.3f; })},
      {"penalties_over_all",
       with([](auto& p) { p.repeat_penalty = 1.1f, p.frequency_penalty = 0.1f, p.repeat_last_n = -1; })},
      {"penalties_over_none", with([](auto& p) { p.repeat_penalty = 2, p.repeat_last_n = 0; })},
      {"penalties_short_window", with([](auto& p) { p.repeat_penalty = 1.5f, p.repeat_last_n = 3; })},
      {"all_but_xtc",
       {.temperature = 0.7f,
        .top_k = 30,
        .top_p = 0.9f,
        .min_p = 0.01f,
        .typical_p = 0.95f,
        .repeat_penalty = 1.1f,
        .presence_penalty = 0.1f,
        .frequency_penalty = 0.1f,
        .logit_bias = {{1, 1.0f}}}},
  };
  return all;
}

TEST(Sampler, DrawsFromTheReferenceDistributionWithEverySetting) {
  constexpr int kDraws = 6'000;
  unsigned seed = 1;
  for (const auto& [name, base] : cases()) {
    for (const std::size_t size : {5u, 70u, 900u}) {
      SCOPED_TRACE(name + " with " + std::to_string(size) + " tokens");
      SamplingParams params = base;
      params.seed = ++seed;
      const std::vector<float> logits = random_logits(size, seed);
      const std::vector<Token> history = random_history(150, 40, seed);
      std::map<Token, double> expected;
      for (const auto& entry :
           reference::distribution(params, logits, history, params.xtc_probability == 1)) {
        expected[entry.token] = entry.p;
      }
      expect_fits(frequencies(params, logits, history, kDraws), expected, kDraws);
    }
  }
}

TEST(Sampler, XtcActsWithItsProbability) {
  constexpr int kDraws = 6'000;
  SamplingParams params = with([](auto& p) { p.xtc_probability = 0.3f, p.xtc_threshold = 0.1f, p.seed = 4; });
  const std::vector<float> logits = {3, 2.8f, 2.5f, 0, 0, -1};
  std::map<Token, double> expected;
  for (const auto& entry : reference::distribution(params, logits, {}, true))
    expected[entry.token] += 0.3 * entry.p;
  for (const auto& entry : reference::distribution(params, logits, {}, false))
    expected[entry.token] += 0.7 * entry.p;
  expect_fits(frequencies(params, logits, {}, kDraws), expected, kDraws);
}

TEST(Sampler, OnlyTokensOfTheMaskAreDrawn) {
  constexpr int kDraws = 6'000;
  for (const auto& [name, params] : cases()) {
    SCOPED_TRACE(name);
    const std::vector<float> logits = random_logits(100, 8);
    const std::vector<std::uint32_t> allowed = {0x80000001u, 0, 0x00ff0000u, 0xffffffffu};
    std::map<Token, double> expected;
    for (const auto& entry :
         reference::distribution(params, logits, {}, params.xtc_probability == 1, allowed)) {
      expected[entry.token] = entry.p;
    }
    expect_fits(frequencies(params, logits, {}, kDraws, allowed), expected, kDraws);
  }
}

TEST(Sampler, NothingAllowedIsMinusOne) {
  const std::vector<float> logits = random_logits(100, 8);
  const std::vector<std::uint32_t> none(4, 0);
  for (const auto& [name, params] : cases()) {
    Sampler sampler(params, vocabulary(100));
    EXPECT_EQ(sampler.sample(logits, none).token, -1) << name;
    EXPECT_EQ(sampler.sample(std::vector<float>(100, -kInf)).token, -1) << name;
    EXPECT_EQ(sampler.sample(std::vector<float>(100, NAN)).token, -1) << name;
    EXPECT_EQ(sampler.sample({}).token, -1) << name;
    EXPECT_GE(sampler.sample(logits).token, 0) << name;
  }
}

TEST(Sampler, ABiasDoesNotBringBackWhatTheMaskForbids) {
  const std::vector<std::uint32_t> allowed = {0b0110};
  Sampler sampler({.temperature = 0, .logit_bias = {{0, kInf}, {3, 100}}}, vocabulary(4));
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 2, 3, 4}, allowed).token, 2);
}

TEST(Sampler, TheOnlyAllowedTokenIsChosenHoweverUnlikely) {
  std::vector<float> logits = random_logits(1000, 3);
  logits[777] = -1e30f;
  std::vector<std::uint32_t> allowed(32, 0);
  allowed[777 / 32] = 1u << 777 % 32;
  for (const auto& [name, params] : cases()) {
    EXPECT_EQ(Sampler(params, vocabulary(1000)).sample(logits, allowed).token, 777) << name;
  }
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEqualMaxima) {
  for (const std::size_t size : {3u, 17u, 300u, 5000u}) {
    std::vector<float> logits(size, 1.0f);
    EXPECT_EQ(Sampler({.temperature = 0}, vocabulary(static_cast<int>(size))).sample(logits).token, 0);
    logits[size - 1] = logits[size / 2] = 2;
    EXPECT_EQ(Sampler({.temperature = 0}, vocabulary(static_cast<int>(size))).sample(logits).token,
              static_cast<Token>(size / 2));
    EXPECT_EQ(Sampler({.temperature = -1}, vocabulary(static_cast<int>(size))).sample(logits).token,
              static_cast<Token>(size / 2));
  }
}

TEST(Sampler, GreedyIgnoresNanAndInfinities) {
  EXPECT_EQ(
      Sampler({.temperature = 0}, vocabulary(5)).sample(std::vector<float>{NAN, -kInf, -7, NAN, -8}).token,
      2);
  EXPECT_EQ(Sampler({.temperature = 0}, vocabulary(4)).sample(std::vector<float>{1, kInf, NAN, kInf}).token,
            1);
}

TEST(Sampler, AnInfiniteLogitWinsWithEverySetting) {
  std::vector<float> logits = random_logits(100, 3);
  logits[42] = kInf;
  for (const auto& [name, params] : cases()) {
    EXPECT_EQ(Sampler(params, vocabulary(100)).sample(logits).token, 42) << name;
  }
}

TEST(Sampler, NanAndMinusInfinityAreNeverDrawn) {
  std::vector<float> logits = random_logits(300, 3);
  for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = i % 2 == 0 ? NAN : -kInf;
  for (const auto& [name, params] : cases()) {
    for (const auto& [token, count] : frequencies(params, logits, {}, 500)) {
      EXPECT_TRUE(token >= 0 && token % 3 != 0) << name << " drew " << token;
    }
  }
}

TEST(Sampler, TopKAmongEqualLogitsKeepsTheLowestIds) {
  SamplingParams params = with([](auto& p) { p.top_k = 10; });
  for (const auto& [token, count] : frequencies(params, std::vector<float>(5000, 0.5f), {}, 2000))
    EXPECT_LT(token, 10);
}

TEST(Sampler, ExtremeTemperaturesStayWithinTheCandidates) {
  const std::vector<float> logits = random_logits(200, 9);
  const auto best = static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (const float temperature : {1e-40f, 1e-30f, 1e-3f}) {
    SamplingParams params = with([&](auto& p) { p.temperature = temperature; });
    for (const int top_k : {0, 40}) {
      params.top_k = top_k;
      EXPECT_EQ(frequencies(params, logits, {}, 50), (std::map<Token, int>{{best, 50}})) << temperature;
    }
  }
  for (const float temperature : {1e30f, kInf}) {
    SamplingParams params = with([&](auto& p) { p.temperature = temperature, p.top_k = 5; });
    EXPECT_EQ(frequencies(params, logits, {}, 500).size(), 5u) << temperature;
  }
}

TEST(Sampler, NonsenseInItsParametersStillGivesATokenOfTheVocabulary) {
  const std::vector<float> logits = random_logits(500, 9);
  std::mt19937 random(3);
  const std::vector<float> odd = {NAN, kInf, -kInf, -1, 0, 1, 1e30f, 1e-40f, 0.5f};
  const auto pick = [&] { return odd[random() % odd.size()]; };
  for (int round = 0; round < 2000; ++round) {
    SamplingParams params{.temperature = pick(),
                          .top_k = static_cast<int>(random() % 5) - 2,
                          .top_p = pick(),
                          .min_p = pick(),
                          .typical_p = pick(),
                          .repeat_penalty = pick(),
                          .presence_penalty = 0.1f,
                          .frequency_penalty = 0.1f,
                          .dry_multiplier = pick(),
                          .dry_base = pick(),
                          .dry_allowed_length = static_cast<int>(random() % 5) - 2,
                          .xtc_probability = pick(),
                          .xtc_threshold = pick(),
                          .mirostat = static_cast<int>(random() % 3),
                          .mirostat_tau = pick(),
                          .mirostat_eta = pick(),
                          .seed = static_cast<std::uint32_t>(round)};
    Sampler sampler(params, vocabulary(500));
    for (int i = 0; i < 30; ++i) {
      const Token token = sampler.sample(logits).token;
      ASSERT_TRUE(token >= -1 && token < 500);
      if (token >= 0) sampler.accept(token);
    }
  }
}

// ---- history

TEST(Sampler, IgnoreEosBansTheEndOfGenerationTokens) {
  std::vector<float> logits(50, 0.0f);
  logits[7] = 10, logits[9] = 9, logits[20] = 5;
  EXPECT_EQ(Sampler({.temperature = 0, .ignore_eos = true}, vocabulary(50, {7, 9})).sample(logits).token, 20);
  EXPECT_EQ(Sampler({.temperature = 0}, vocabulary(50, {7, 9})).sample(logits).token, 7);
}

TEST(Sampler, TokensLeaveThePenaltyWindow) {
  const std::vector<float> logits = {1, 0.9f, 0};
  Sampler sampler({.temperature = 0, .presence_penalty = 0.5f, .repeat_last_n = 2}, vocabulary(3));
  EXPECT_EQ(sampler.sample(logits).token, 0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits).token, 1);
  sampler.accept(2);
  EXPECT_EQ(sampler.sample(logits).token, 1);
  sampler.accept(2);
  EXPECT_EQ(sampler.sample(logits).token, 0);
}

TEST(Sampler, TokensOutsideTheVocabularyMayBeAccepted) {
  Sampler sampler({.temperature = 0, .repeat_penalty = 1.5f, .dry_multiplier = 1}, vocabulary(3));
  for (int i = 0; i < 100; ++i) sampler.accept(i % 2 == 0 ? -5 : 1'000'000);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 2, 0}).token, 1);
}

TEST(Sampler, DryEqualsItsDefinition) {
  std::mt19937 random(11);
  std::vector<bool> breaker(31);
  for (std::size_t t = 0; t < breaker.size(); t += 10) breaker[t] = true;
  for (int round = 0; round < 300; ++round) {
    SamplingParams params{.temperature = 0,
                          .top_k = 0,
                          .dry_multiplier = 0.8f,
                          .dry_base = 1.2f,
                          .dry_allowed_length = 1 + static_cast<int>(random() % 4),
                          .dry_penalty_last_n = random() % 2 == 0 ? -1 : 1 + static_cast<int>(random() % 80)};
    const std::vector<Token> history =
        random_history(static_cast<int>(random() % 200), 2 + static_cast<int>(random() % 29), random());
    const std::vector<float> logits = random_logits(31, random());
    Sampler sampler(params, vocabulary(31));
    sampler.accept(history);
    const auto penalties = reference::dry_penalties(params, history, breaker);
    Token best = 0;
    double best_logit = -kInf;
    for (std::size_t t = 0; t < logits.size(); ++t) {
      const auto it = penalties.find(static_cast<Token>(t));
      const double logit = logits[t] - (it == penalties.end() ? 0 : it->second);
      if (logit > best_logit) best_logit = logit, best = static_cast<Token>(t);
    }
    EXPECT_EQ(sampler.sample(logits).token, best) << round;
  }
}

TEST(Sampler, DryPenaltiesAreDrawnFromLikeTheReference) {
  constexpr int kDraws = 6'000;
  SamplingParams params = with([](auto& p) { p.dry_multiplier = 0.5f, p.dry_base = 1.3f, p.seed = 6; });
  const std::vector<Token> history = {1, 2, 3, 4, 9, 1, 2, 3, 5, 8, 1, 2, 3};
  const std::vector<float> logits = random_logits(12, 3, 1);
  const auto penalties = reference::dry_penalties(
      params, history, {true, false, false, false, false, false, false, false, false, false, true, false});
  ASSERT_TRUE(penalties.contains(4) && penalties.contains(5));
  std::map<Token, double> expected;
  for (const auto& entry : reference::distribution(params, logits, {}, false, {}, penalties))
    expected[entry.token] = entry.p;
  expect_fits(frequencies(params, logits, history, kDraws), expected, kDraws);
}

// ---- determinism and log-probabilities

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const std::vector<float> logits = random_logits(3000, 2);
  for (const auto& [name, base] : cases()) {
    SamplingParams params = base;
    params.seed = 99;
    Sampler one(params, vocabulary(3000)), two(params, vocabulary(3000));
    params.seed = 100;
    Sampler other(params, vocabulary(3000));
    std::vector<Token> a, b, c;
    for (int i = 0; i < 200; ++i) {
      a.push_back(one.sample(logits).token);
      b.push_back(two.sample(logits, {}, 3).token);
      c.push_back(other.sample(logits).token);
      one.accept(a.back()), two.accept(b.back()), other.accept(c.back());
    }
    EXPECT_EQ(a, b) << name;
    if (std::set(a.begin(), a.end()).size() > 10) {
      EXPECT_NE(a, c) << name;
    }
  }
}

TEST(Sampler, SequencesOfASeedNeverChange) {
  // Guards against an accidental change of the generator: recorded seeds in logs and tests rely on it.
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7919 % 1000) / 125;
  Sampler sampler({.seed = 42}, vocabulary(1000));
  std::vector<Token> tokens;
  for (int i = 0; i < 8; ++i) tokens.push_back(sampler.sample(logits).token);
  EXPECT_EQ(tokens, (std::vector<Token>{852, 556, 457, 963, 25, 963, 247, 667}));
}

TEST(Sampler, OneDrawIsMadeForEachSampledToken) {
  // After tokens of any kind, the next draw is the same.
  const std::vector<float> logits = random_logits(400, 2), single = {1, -kInf};
  Sampler a({.seed = 5}, vocabulary(400)), b({.seed = 5}, vocabulary(400));
  for (int i = 0; i < 3; ++i) a.sample(logits), b.sample(single);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(a.sample(logits).token, b.sample(logits).token);
}

TEST(Sampler, LogprobsAreThoseOfTheUnmodifiedLogits) {
  for (const std::size_t size : {10u, 1000u, 49152u}) {
    const std::vector<float> logits = random_logits(size, 4, 4);
    reference::Distribution d = reference::distribution(kOff, logits, {}, false);
    Sampler sampler({.temperature = 0.3f, .top_k = 3, .logit_bias = {{5, 4.0f}, {d[0].token, -kInf}}},
                    vocabulary(static_cast<int>(size)));
    for (int i = 0; i < 5; ++i) {
      const Sampled sampled = sampler.sample(logits, {}, 7);
      const auto own =
          std::find_if(d.begin(), d.end(), [&](const auto& e) { return e.token == sampled.token; });
      EXPECT_NEAR(sampled.logprob, std::log(own->p), 1e-4);
      ASSERT_EQ(sampled.top.size(), 7u);
      for (std::size_t k = 0; k < 7; ++k) {
        EXPECT_EQ(sampled.top[k].token, d[k].token);
        EXPECT_NEAR(sampled.top[k].logprob, std::log(d[k].p), 1e-4);
      }
    }
    EXPECT_TRUE(sampler.sample(logits, {}, 0).top.empty());
  }
}

TEST(Sampler, LogprobsOfUnusualRowsAreNumbersOrMinusInfinity) {
  Sampler sampler({.temperature = 0}, vocabulary(3));
  const Sampled infinite = sampler.sample(std::vector<float>{1, kInf, 0}, {}, 3);
  EXPECT_EQ(infinite.token, 1);
  EXPECT_EQ(infinite.logprob, 0);
  const Sampled nan = sampler.sample(std::vector<float>{NAN, 1, -kInf}, {}, 3);
  EXPECT_NEAR(nan.logprob, 0, 1e-6);
  EXPECT_EQ(nan.top.size(), 1u);
  EXPECT_EQ(sampler.sample(std::vector<float>{NAN, NAN, NAN}, {}, 3).token, -1);
}

// ---- mirostat

TEST(Sampler, MirostatHoldsTheSurpriseAtItsTarget) {
  const std::vector<float> logits = random_logits(2000, 6, 3);
  const reference::Distribution d = reference::distribution(kOff, logits, {}, false);
  std::map<Token, double> p;
  for (const auto& entry : d) p[entry.token] = entry.p;
  for (const int version : {1, 2}) {
    for (const float tau : {1.5f, 3.0f}) {
      SamplingParams params{.temperature = 1, .mirostat = version, .mirostat_tau = tau, .seed = 3};
      Sampler sampler(params, vocabulary(2000));
      std::set<Token> seen;
      for (int i = 0; i < 3000; ++i) seen.insert(sampler.sample(logits).token);
      // A lower target means fewer, more likely tokens; without truncation some 900 of them come up.
      EXPECT_GT(seen.size(), tau < 2 ? 2u : 6u) << version;
      EXPECT_LT(seen.size(), tau < 2 ? 60u : 300u) << version;
    }
  }
}

TEST(Sampler, MirostatWithAnUnreachableTargetStillChooses) {
  const std::vector<float> logits = {5, 5, 5, 1};
  for (const int version : {1, 2}) {
    for (const float tau : {-50.0f, 0.0f, 50.0f}) {
      SamplingParams params{.temperature = 1, .mirostat = version, .mirostat_tau = tau};
      Sampler sampler(params, vocabulary(4));
      for (int i = 0; i < 100; ++i) ASSERT_GE(sampler.sample(logits).token, 0);
    }
    EXPECT_EQ(Sampler({.mirostat = version}, vocabulary(2)).sample(std::vector<float>{-kInf, 1}).token, 1);
    EXPECT_EQ(Sampler({.temperature = 0, .mirostat = version}, vocabulary(4)).sample(logits).token, 0);
  }
}

}  // namespace
}  // namespace gezel::sampling
