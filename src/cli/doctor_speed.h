// cli/doctor_speed.h
//
// Whether models are as fast as this machine's memory lets them be, and what stands in the way (spec 35
// section 3). Pure.
#pragma once
#include <optional>
#include <vector>

#include "cli/doctor.h"

namespace gezel::cli {

// A measured model and what one of its tokens reads.
struct SpeedFacts {
  std::string model;                       // as people type it
  double decode_tps = 0, shallow_tps = 0;  // at `at_depth`, and at the beginning of a conversation
  std::int64_t at_depth = 0;
  Bytes weights = 0, cache = 0;  // that one token reads at that depth
  std::string kv_type;
  bool undisturbed = true;
};

// From this share of what memory delivers on, memory is what a model waits for.
inline constexpr double kMemoryBound = 0.7;
// From this share of a token's time on, that is what came before it.
inline constexpr double kAttentionBound = 0.5;

// `memory_speed`: bytes per second that `threads` threads read, nothing = it could not be measured.
// `unknown`: installed models that were not measured yet.
Findings judge_speeds(const std::vector<SpeedFacts>& models, std::optional<double> memory_speed, int threads,
                      const std::vector<std::string>& unknown);

}  // namespace gezel::cli
