#include "capacity/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr auto kTierNames = std::to_array<std::string_view>({"too-big", "tight", "fits-offload", "fits"});

// The always-active layers of a mixture of experts, where the file does not say.
constexpr std::uint64_t kResiduePercent = 15;

struct Capability {
  Bytes from;  // decimal, as memory is sold
  std::string_view name;
};
constexpr auto kCapabilities = std::to_array<Capability>(
    {{25'000'000'000, "large"}, {13'000'000'000, "medium"}, {5'000'000'000, "small"}, {0, "tiny"}});

}  // namespace

std::string_view fit_tier_name(FitTier tier) {
  return kTierNames[static_cast<std::size_t>(tier)];
}

Fit rate_fit(const FitInput& input) {
  const std::string needs = format_bytes(input.footprint), usable = format_bytes(input.usable);
  const bool on_card = input.gpu_vram.has_value();
  if (input.footprint <= input.usable) {
    return {FitTier::fits, on_card ? "in GPU memory" : "in memory",
            fmt::format("It takes {} of the {} of fast memory.", needs, usable)};
  }
  if (input.footprint > input.admissible) {
    return {FitTier::too_big, "does not fit",
            fmt::format("It takes {}, and models may use {} on this machine.", needs,
                        format_bytes(input.admissible))};
  }
  if (input.moe && on_card) {
    const bool residue_fits = input.non_expert_bytes
                                  ? *input.non_expert_bytes <= input.usable
                                  : Wide{input.footprint} * kResiduePercent <= Wide{input.usable} * 100;
    if (residue_fits) {
      return {
          FitTier::fits_offload, "runs with expert offload",
          fmt::format("It takes {}: the always-active layers fit the {} of graphics memory, experts are kept "
                      "in main memory.",
                      needs, usable)};
    }
    return {FitTier::tight, "runs slowly",
            fmt::format("Its always-active layers exceed the {} of graphics memory.", usable)};
  }
  return {FitTier::tight, "runs slowly",
          fmt::format("It takes {}, more than the {} of fast memory.", needs, usable)};
}

bool is_moe_by_tags(const std::vector<std::string>& tags) {
  return std::ranges::any_of(tags, [](std::string tag) {
    std::ranges::transform(tag, tag.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return tag == "moe" || tag.contains("expert");
  });
}

std::string_view capability_tier(Bytes usable_bytes) {
  return std::ranges::find_if(kCapabilities, [&](const Capability& c) { return usable_bytes >= c.from; })
      ->name;
}

bool media_fits(const MediaNeeds& needs, const MemoryProfile& profile) {
  const Bytes vram = profile.platform == Platform::macos ? floor_share(profile.total_ram_bytes, 8, 10)
                                                         : profile.gpu_vram_bytes.value_or(0);
  return profile.total_ram_bytes >= needs.min_ram.value_or(0) && vram >= needs.min_vram.value_or(0);
}

}  // namespace gezel::capacity
