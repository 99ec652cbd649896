#include "capacity/requirement.h"

#include <algorithm>
#include <limits>

namespace gezel::capacity {
namespace {

constexpr Bytes kConstrainedVram = 8 * kGiB, kConstrainedRam = 16 * kGiB;
constexpr Tokens kGrain = 1024;

std::optional<Tokens> positive(std::optional<Tokens> tokens) {
  return tokens && *tokens > 0 ? tokens : std::nullopt;
}

}  // namespace

Tokens context_floor(Bytes vram, Bytes total_ram) {
  const bool constrained =
      vram > 0 ? vram <= kConstrainedVram : total_ram > 0 && total_ram <= kConstrainedRam;
  return constrained ? kConstrainedFloor : kUsualFloor;
}

ContextRequirement context_requirement(std::optional<Tokens> native, std::optional<Tokens> request,
                                       Tokens floor) {
  ContextRequirement out;
  out.native = positive(native).value_or(floor);
  out.minimum = std::min(out.native, floor);
  out.requested = std::min(out.native, std::max(positive(request).value_or(floor), out.minimum));
  return out;
}

ContextRequirement context_requirement(const ContextWish& wish, Tokens floor) {
  const auto asked = positive(wish.environment)      ? positive(wish.environment)
                     : positive(wish.model_override) ? positive(wish.model_override)
                                                     : positive(wish.configured);
  // A small window named for one model is meant; one named for all models is only a default.
  const bool by_model = !positive(wish.environment) && positive(wish.model_override);
  if (by_model) floor = std::min(floor, *positive(wish.model_override));

  const bool model_max = !asked && wish.sizing == ContextSizing::model_max;
  const auto request = asked       ? asked
                       : model_max ? positive(wish.native)
                                   : std::optional(positive(wish.catalog).value_or(kUsualFloor));
  ContextRequirement out = context_requirement(wish.native, request, floor);
  out.explicitly_asked = asked.has_value();
  out.unchecked = positive(wish.environment).has_value();
  if (model_max) {
    out.strict = true;
    out.minimum = out.requested;
  }
  out.limit = asked ? out.requested : out.native;
  if (positive(wish.needed)) {
    out.needed = std::min(*wish.needed, out.limit);
    out.requested = std::max(out.requested, out.needed);
    out.minimum = std::max(out.minimum, out.needed);
  }
  if (asked || model_max || !positive(wish.native)) return out;
  constexpr Tokens kNone = std::numeric_limits<Tokens>::max();
  const Tokens reach = std::min(
      {*wish.native, positive(wish.growth_ceiling).value_or(kNone), positive(wish.catalog).value_or(kNone)});
  const Tokens target = reach / kGrain * kGrain;
  if (target > out.requested) out.growth_target = target;
  return out;
}

std::optional<Tokens> below_floor_minimum(const ContextRequirement& requirement) {
  if (requirement.explicitly_asked || requirement.strict) return std::nullopt;
  return std::min(requirement.native, std::max(kBelowFloorMinimum, requirement.needed));
}

}  // namespace gezel::capacity
