#include "capacity/pressure.h"

#include <array>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr int kSomeLimit = 1000, kFullLimit = 200;  // hundredths of a percent
constexpr std::uint64_t kAvailablePercent = 5, kGroupPercent = 95, kGroupCalmPercent = 90;

constexpr auto kSourceNames =
    std::to_array<std::string_view>({"none", "some-stall", "full-stall", "available", "group"});
constexpr auto kStepNames =
    std::to_array<std::string_view>({"none", "drop-host-caches", "stop-idle-engines", "refuse-loads"});

bool available_below(const PressureSample& sample, std::uint64_t percent) {
  return sample.total > 0 && Wide{sample.available} * 100 < Wide{sample.total} * percent;
}
bool group_from(const PressureSample& sample, std::uint64_t percent) {
  return sample.group_used && sample.group_limit > 0 &&
         Wide{*sample.group_used} * 100 >= Wide{sample.group_limit} * percent;
}

}  // namespace

PressureSample pressure_sample(const system::PressureFacts& pressure, const system::MemoryFacts& memory) {
  return {.some_avg10 = pressure.some(),
          .full_avg10 = pressure.full(),
          .available = memory.available,
          .total = memory.total,
          .group_used = pressure.group_used,
          .group_limit = pressure.group_limit};
}

std::string_view pressure_source_name(PressureSource source) {
  return kSourceNames[static_cast<std::size_t>(source)];
}
std::string_view pressure_step_name(PressureStep step) {
  return kStepNames[static_cast<std::size_t>(step)];
}

PressureSource pressure_source(const PressureSample& sample) {
  if (sample.some_avg10.value_or(0) >= kSomeLimit) return PressureSource::some_stall;
  if (sample.full_avg10.value_or(0) >= kFullLimit) return PressureSource::full_stall;
  if (available_below(sample, kAvailablePercent)) return PressureSource::available;
  if (group_from(sample, kGroupPercent)) return PressureSource::group;
  return PressureSource::none;
}

bool is_calm(const PressureSample& sample) {
  return sample.some_avg10.value_or(0) <= kSomeLimit / 2 && sample.full_avg10.value_or(0) <= kFullLimit / 2 &&
         !available_below(sample, 2 * kAvailablePercent) && !group_from(sample, kGroupCalmPercent);
}

PressureState next_pressure(const PressureState& state, const PressureSample& sample, std::int64_t now_ms) {
  PressureState next = state;
  const PressureSource source = pressure_source(sample);
  if (source != PressureSource::none) {
    next.calm_since_ms.reset();
    next.source = source;
    const bool first = state.step == PressureStep::none;
    const bool due = now_ms - state.step_since_ms >= kPressureStepMs;
    if (first || (due && state.step != PressureStep::refuse_loads)) {
      next.step = static_cast<PressureStep>(static_cast<int>(state.step) + 1);
      next.step_since_ms = now_ms;
    }
    return next;
  }
  if (!state.pressured()) return next;
  if (!is_calm(sample)) {
    next.calm_since_ms.reset();
    return next;
  }
  if (!state.calm_since_ms) next.calm_since_ms = now_ms;
  if (now_ms - *next.calm_since_ms >= kPressureClearMs) return {};
  return next;
}

}  // namespace gezel::capacity
