#include "prompt/tuning_profiles.h"

#include <algorithm>
#include <charconv>

namespace gezel::prompt {
namespace {

struct TierRow {
  Tier tier;
  std::string_view name;
  double below_billions;
};
constexpr std::array kTiers{
    TierRow{Tier::tiny, "tiny", 5},      TierRow{Tier::small, "small", 12},
    TierRow{Tier::medium, "medium", 45}, TierRow{Tier::large, "large", 0},  // no bound
    TierRow{Tier::cloud, "cloud", 0},                                       // never by size
};

// A decimal number at the front, which is taken off.
std::optional<double> take_number(std::string_view& text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<double> billions_per(char unit) {
  switch (unit) {
    case 'K':
    case 'k':
      return 1e-6;
    case 'M':
    case 'm':
      return 1e-3;
    case 'B':
    case 'b':
      return 1;
    case 'T':
    case 't':
      return 1e3;
    default:
      return std::nullopt;
  }
}

}  // namespace

const TuningProfile* find_tuning_profile(std::string_view id) {
  const auto* found = std::ranges::find(kTuningProfiles, id, &TuningProfile::id);
  return found == kTuningProfiles.end() ? nullptr : found;
}

std::string tuning_profile_ids() {
  std::string out;
  for (const auto& profile : kTuningProfiles) {
    if (!out.empty()) out += ", ";
    out += profile.id;
  }
  return out;
}

std::string_view wanted_tuning_profile(std::string_view request, std::string_view install,
                                       std::string_view suggestion) {
  for (const auto choice : {request, install, suggestion}) {
    if (!choice.empty()) return choice;
  }
  return kDefaultTuningProfile;
}

std::string_view resolve_tuning_profile(std::string_view wanted,
                                        std::span<const std::string_view> available) {
  const auto* profile = find_tuning_profile(wanted);
  if (profile == nullptr) return {};
  const auto there = [&](std::string_view id) {
    const auto* row = find_tuning_profile(id);
    return std::ranges::find(available, id) != available.end() || (row != nullptr && row->temperature);
  };
  if (there(profile->id)) return profile->id;
  for (const auto id : profile->fallbacks) {
    if (!id.empty() && there(id)) return id;
  }
  return {};
}

std::string_view tier_name(Tier tier) {
  return std::ranges::find(kTiers, tier, &TierRow::tier)->name;
}

Tier tier_of(std::optional<double> billions) {
  if (!billions) return Tier::tiny;
  for (const auto& row : kTiers) {
    if (row.below_billions > 0 && *billions < row.below_billions) return row.tier;
  }
  return Tier::large;
}

std::optional<double> billions_of(std::string_view size_label) {
  std::string_view rest = size_label;
  auto number = take_number(rest);
  if (!number) return std::nullopt;
  if (rest.starts_with('x')) {
    rest.remove_prefix(1);
    const auto each = take_number(rest);
    if (!each) return std::nullopt;
    *number *= *each;
  }
  const auto unit = rest.empty() ? std::nullopt : billions_per(rest.front());
  if (!unit) return std::nullopt;
  return *number * *unit;
}

}  // namespace gezel::prompt
