// capacity/fit.h
//
// Does a model run on this machine, and how well? (spec 20 section 19.1) Clients go by the tier; label and
// detail are for people.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capacity/profile.h"

namespace gezel::capacity {

enum class FitTier {
  too_big,
  tight,         // runs slowly
  fits_offload,  // experts in main memory, the rest on the card
  fits,
};
std::string_view fit_tier_name(FitTier tier);  // "fits", "fits-offload", "tight", "too-big"
constexpr bool runnable(FitTier tier) {
  return tier != FitTier::too_big;
}

struct Fit {
  FitTier tier = FitTier::too_big;
  std::string label, detail;
};

struct FitInput {
  Bytes footprint = 0;  // rating_footprint()
  bool moe = false;
  Bytes usable = 0;
  std::optional<Bytes> gpu_vram;          // absent for integrated adapters and none
  Bytes admissible = 0;                   // the budget
  std::optional<Bytes> non_expert_bytes;  // exact; absent: 15 % of the footprint
};
Fit rate_fit(const FitInput& input);

// Of a catalog entry: a tag "moe" or one that contains "expert". After installation the file's
// expert_count is the truth.
bool is_moe_by_tags(const std::vector<std::string>& tags);

// What a device can do at all, by its fast memory: "large" from 25e9 bytes, "medium" 13e9,
// "small" 5e9, "tiny".
std::string_view capability_tier(Bytes usable_bytes);

// The memory that an image or video model asks for; absent floors pass. On macOS graphics memory is
// 80 % of main memory.
struct MediaNeeds {
  std::optional<Bytes> min_ram, min_vram;
};
bool media_fits(const MediaNeeds& needs, const MemoryProfile& profile);

}  // namespace gezel::capacity
