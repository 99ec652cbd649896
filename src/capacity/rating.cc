#include "capacity/rating.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <tuple>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr Bytes kSmallCard = 8 * kGiB, kSmallModel = 8 * kGiB, kLargeCard = 24 * kGiB;

// Scores of a class stay inside its band.
struct Band {
  int low, high;
};
constexpr auto kBands = std::to_array<Band>({{0, 0}, {1, 29}, {30, 59}, {60, 100}});

bool is_moe(const RatedInput& model) {
  return model.moe.value_or(is_moe_by_tags(model.tags));
}
double gated_score(const RatedInput& model) {
  return gated(model) ? *model.reco_score : 0;
}

struct Candidate {
  const RatedInput* model = nullptr;
  Fit fit;
  int rating_class = 0;
  bool moe = false, gate = false, low_bit = false;
  double score = 0;  // gated recommendation
};

int class_of(const Candidate& c, const DevicePolicy& policy) {
  if (c.fit.tier == FitTier::too_big) return 0;
  const bool well = c.fit.tier == FitTier::fits || c.fit.tier == FitTier::fits_offload;
  if (!well || (policy.small_only && c.model->footprint > kSmallModel)) return 1;
  return c.gate && !(policy.exclude_moe && c.moe) ? 3 : 2;
}

// True: a comes before b.
bool better(const Candidate& a, const Candidate& b, const DevicePolicy& policy) {
  if (a.rating_class != b.rating_class) return a.rating_class > b.rating_class;
  const Bytes ra = a.model->footprint, rb = b.model->footprint;
  if (policy.small_only)
    return std::tuple(ra, a.moe, -a.score, std::string_view(a.model->id)) <
           std::tuple(rb, b.moe, -b.score, std::string_view(b.model->id));
  if (a.rating_class >= 2) {
    // Of what runs well the largest is the best.
    return std::tuple(-a.score, a.moe != policy.prefer_moe, a.low_bit, kMaxBytes - ra,
                      std::string_view(a.model->id)) < std::tuple(-b.score, b.moe != policy.prefer_moe,
                                                                  b.low_bit, kMaxBytes - rb,
                                                                  std::string_view(b.model->id));
  }
  return std::tuple(!a.gate, -a.score, ra, std::string_view(a.model->id)) <
         std::tuple(!b.gate, -b.score, rb, std::string_view(b.model->id));
}

int raw_score(const Candidate& c, const DevicePolicy& policy, Bytes usable) {
  constexpr std::array<int, 4> kTierPoints = {0, 12, 34, 40};  // by FitTier
  constexpr int kUsePoints = 8;
  const int tier = kTierPoints[static_cast<std::size_t>(c.fit.tier)];
  const int curated = c.gate ? 20 + std::min(20, static_cast<int>(std::floor(c.score))) : 0;
  const bool suited = policy.small_only ? !c.moe : c.moe == policy.prefer_moe;
  const int quality = c.low_bit ? 0 : 4;
  const Bytes used = std::min(c.model->footprint, usable);
  const int filled = usable > 0 ? static_cast<int>(round_share(used, kUsePoints, usable)) : kUsePoints;
  return tier + curated + (suited ? 8 : 0) + quality + (policy.small_only ? kUsePoints - filled : filled);
}

Candidate candidate(const RatedInput& model, const MemoryProfile& profile, const DevicePolicy& policy) {
  Candidate c{
      .model = &model, .moe = is_moe(model), .gate = gated(model), .low_bit = is_low_bit(model.quantization)};
  c.score = gated_score(model);
  c.fit = rate_fit({.footprint = model.footprint,
                    .moe = c.moe,
                    .usable = profile.usable_bytes,
                    .gpu_vram = profile.fast_gpu_bytes(),
                    .admissible = profile.budget_bytes,
                    .non_expert_bytes = model.non_expert_bytes});
  c.rating_class = class_of(c, policy);
  return c;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

bool gated(const RatedInput& model) {
  return model.reco_score.value_or(0) > 0 && model.license_class == "open" &&
         model.supports_tools.value_or(true);
}

bool is_low_bit(std::string_view quantization) {
  // The first number in it: IQ2_XXS, Q4_K_M, 3bit, MXFP4, BF16.
  const auto first = quantization.find_first_of("0123456789");
  if (first == quantization.npos) return false;
  int bits = 0;
  for (char c : quantization.substr(first)) {
    if (c < '0' || c > '9' || bits > 1000) break;
    bits = bits * 10 + (c - '0');
  }
  return bits > 0 && bits <= 3;
}

DevicePolicy device_policy(const MemoryProfile& profile) {
  const auto vram = profile.fast_gpu_bytes();
  const GpuMemoryKind kind = profile.gpu_memory_kind;
  const bool mac = profile.platform == Platform::macos;
  const bool integrated = kind == GpuMemoryKind::integrated, unified = kind == GpuMemoryKind::unified;
  DevicePolicy out;
  out.unified_host =
      mac || integrated || unified ||
      (kind != GpuMemoryKind::discrete && vram && Wide{*vram} * 4 >= Wide{profile.total_ram_bytes} * 3);
  out.small_only =
      !mac && !unified && (integrated || kind == GpuMemoryKind::none || !vram || *vram < kSmallCard);
  out.prefer_moe = mac || unified || (out.unified_host && !out.small_only) || (vram && *vram <= kLargeCard);
  out.exclude_moe = !out.unified_host && vram && *vram > kLargeCard;
  return out;
}

std::vector<Rated> rate_models(const std::vector<RatedInput>& models, const MemoryProfile& profile) {
  const DevicePolicy policy = device_policy(profile);
  std::vector<Candidate> candidates;
  for (const RatedInput& model : models) candidates.push_back(candidate(model, profile, policy));
  std::ranges::sort(candidates, [&](const Candidate& a, const Candidate& b) { return better(a, b, policy); });
  std::vector<Rated> out;
  for (Candidate& c : candidates) {
    const Band band = kBands[static_cast<std::size_t>(c.rating_class)];
    int score = std::clamp(raw_score(c, policy, profile.usable_bytes), band.low, band.high);
    if (!out.empty()) score = std::min(score, out.back().score);
    out.push_back({.id = c.model->id,
                   .fit = std::move(c.fit),
                   .score = score,
                   .recommended = c.rating_class == 3,
                   .rating_class = c.rating_class});
  }
  return out;
}

std::vector<std::string> curated_order(std::vector<RatedInput> models) {
  std::ranges::sort(models, [](const RatedInput& a, const RatedInput& b) {
    const auto place = [](const RatedInput& m) {
      return std::tuple(!gated(m), -m.reco_score.value_or(0), lower(m.name.empty() ? m.id : m.name),
                        std::string_view(m.id));
    };
    return place(a) < place(b);
  });
  std::vector<std::string> ids;
  for (const RatedInput& model : models) ids.push_back(model.id);
  return ids;
}

FirstChoice choose_first_model(const std::vector<RatedInput>& candidates, const MemoryProfile& profile) {
  FirstChoice out{.profile = profile};
  std::vector<RatedInput> models;
  std::ranges::copy_if(candidates, std::back_inserter(models), gated);
  if (models.empty()) {
    out.id = kSafeDefaultModel;
    out.reason = "No catalog model is recommended for this machine; this is the catalog's safe default.";
    out.best_effort = true;
    return out;
  }
  const auto rated = rate_models(models, profile);
  if (rated.front().recommended) {
    out.id = rated.front().id;
    out.reason = fmt::format("The best recommended model for this machine: {}", rated.front().fit.detail);
    return out;
  }
  const DevicePolicy policy = device_policy(profile);
  const RatedInput* smallest = nullptr;
  for (const bool all : {false, true}) {
    for (const RatedInput& model : models) {
      if (!all && !policy.small_only && policy.exclude_moe && is_moe(model)) continue;
      const auto place = [](const RatedInput& m) { return std::pair(m.footprint, -*m.reco_score); };
      if (!smallest || place(model) < place(*smallest)) smallest = &model;
    }
    if (smallest) break;
  }
  out.id = smallest->id;
  out.best_effort = true;
  out.reason = "No catalog model runs well on this machine; as a best effort this is the smallest.";
  return out;
}

Hint device_hint(const RatedInput& model, const Fit& fit, const MemoryProfile& profile) {
  const DevicePolicy policy = device_policy(profile);
  if (!runnable(fit.tier)) return Hint::none;
  if (policy.small_only) return model.footprint > kSmallModel ? Hint::low_acceleration : Hint::none;
  const auto vram = profile.fast_gpu_bytes();
  if (!policy.unified_host && !(vram && *vram <= kLargeCard)) return Hint::none;
  if (is_moe(model)) return Hint::good_match;
  return model.footprint > profile.usable_bytes / 2 ? Hint::large_dense : Hint::none;
}

}  // namespace gezel::capacity
