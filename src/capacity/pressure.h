// capacity/pressure.h
//
// When the machine is short of memory, and what is given back in which order.
//
// Pure policy with hysteresis: a sample in, a state out. Pressure begins at once and ends only
// after everything was well for a while; between the two limits nothing changes, so that a machine
// at the edge does not flap.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "system/memory.h"
#include "system/pressure.h"

namespace gezel::capacity {

// Absent numbers count as no pressure from that source.
struct PressureSample {
  // Stall times of the last 10 s in hundredths of a percent (system::Stall): some tasks waited for memory,
  // all did. The worse of machine and own group.
  std::optional<int> some_avg10, full_avg10;
  Bytes available = 0, total = 0;   // of this process; total 0: unknown
  std::optional<Bytes> group_used;  // of our control group, without inactive file pages
  Bytes group_limit = 0;
};

PressureSample pressure_sample(const system::PressureFacts& pressure, const system::MemoryFacts& memory);

enum class PressureSource { none, some_stall, full_stall, available, group };
std::string_view pressure_source_name(PressureSource source);

// The first limit that a sample breaks: some >= 10 %, full >= 2 %, available < 5 % of the
// total, group >= 95 %.
PressureSource pressure_source(const PressureSample& sample);
// Everything at half: some <= 5 %, full <= 1 %, available >= 10 %, group < 90 %.
bool is_calm(const PressureSample& sample);

// What is in force. Each includes those before it.
enum class PressureStep { none, drop_host_caches, stop_idle_engines, refuse_loads };
std::string_view pressure_step_name(PressureStep step);

struct PressureState {
  PressureStep step = PressureStep::none;
  PressureSource source = PressureSource::none;  // that was broken last
  std::int64_t step_since_ms = 0;
  std::optional<std::int64_t> calm_since_ms;
  bool pressured() const { return step != PressureStep::none; }
};

// As long as stall averages reach back, so that a step has shown its effect before the next one is taken.
inline constexpr std::int64_t kPressureStepMs = 10'000;
inline constexpr std::int64_t kPressureClearMs = 30'000;

PressureState next_pressure(const PressureState& state, const PressureSample& sample, std::int64_t now_ms);

}  // namespace gezel::capacity
