// prompt/tuning_profiles.h
//
// Named tuning profiles: what an answer is for, as one word. A model's profile files say what a word means
// for it; where they say nothing about one word, another stands in (spec 50 section 13). Tables and pure
// functions; laying values over each other is tuning.h's.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gezel::prompt {

struct TuningProfile {
  std::string_view id;
  std::array<std::string_view, 3> fallbacks;  // tried in this order; "" = no more
  bool thinking = false;  // its sampling is for thinking: no sampling_when_thinking is laid over it
  // What it means for every model that says nothing about it, before its fallbacks.
  std::optional<float> temperature;
};
inline constexpr std::array kTuningProfiles{
    TuningProfile{"thinking-general", {"instruct"}, true, {}},
    TuningProfile{"thinking-deep", {"thinking-general", "instruct"}, true, {}},
    TuningProfile{"thinking-coding", {"thinking-general", "instruct"}, true, {}},
    TuningProfile{"thinking-precise", {"thinking-coding", "thinking-general", "instruct"}, true, {}},
    TuningProfile{"instruct", {}, false, {}},
    TuningProfile{"creative", {"instruct"}, false, {}},
    TuningProfile{"terse", {"instruct"}, false, {}},
    TuningProfile{"deterministic", {"instruct"}, false, 0.0F},
};
inline constexpr std::string_view kDefaultTuningProfile = "thinking-general";

const TuningProfile* find_tuning_profile(std::string_view id);  // null: there is none
// "thinking-general, thinking-deep, ...", for messages.
std::string tuning_profile_ids();

// The profile that is wanted: the request's, else what was chosen for this installation, else what the
// model's maker or catalog suggests, else kDefaultTuningProfile. "" = says nothing.
std::string_view wanted_tuning_profile(std::string_view request, std::string_view install,
                                       std::string_view suggestion);

// The first of `wanted` and its fallbacks that is in `available` (or that means something for every model);
// "" where none is: then the model's values hold as they are.
std::string_view resolve_tuning_profile(std::string_view wanted, std::span<const std::string_view> available);

// How much a model can be trusted with, from the number of its parameters.
enum class Tier : std::uint8_t { tiny, small, medium, large, cloud };
std::string_view tier_name(Tier tier);
// Under 5, 12 and 45 billion: tiny, small, medium; else large. Unknown: tiny.
Tier tier_of(std::optional<double> billions);
// "0.6B", "35B-A3B" (of all experts), "8x7B", "270M", as catalogs and model files write it. Nothing: no
// number.
std::optional<double> billions_of(std::string_view size_label);

}  // namespace gezel::prompt
