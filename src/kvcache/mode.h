// kvcache/mode.h
//
// What a model's memory allows (spec 40 section 11.3), and how the load probe judges that restoring it works.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "kvcache/image.h"

namespace gezel::kvcache {

enum class Mode : std::uint8_t {
  full,       // F: resumes at any token
  window,     // W: at the end of a node with a checkpoint, or one token before it
  hybrid,     // H: at the end of a node with a checkpoint
  recurrent,  // R, and images that do not parse: as hybrid, and rows do not exist
  none,       // N: nothing is reused but what a slot holds
};
std::string_view name(Mode mode);

inline bool keeps_rows(Mode mode) {
  return mode <= Mode::hybrid;
}
inline bool needs_checkpoint(Mode mode) {
  return mode != Mode::full;
}
inline ImageKind image_kind(Mode mode) {
  return mode == Mode::window   ? ImageKind::window
         : mode == Mode::hybrid ? ImageKind::state
                                : ImageKind::plain;
}

// What is known of a model at load.
struct ModelFacts {
  bool decoder = true, diffusion = false;
  bool recurrent = false, hybrid = false;
  // Also with a cache for all positions (swa_full): that only lets a slot be cut back further, its exports
  // hold the window alone.
  bool sliding_window = false;
};
// The first guess, before the probe.
Mode guess_mode(const ModelFacts& facts);

// The rule of spec 40 section 11.16.2: restored logits equal cold ones, or the first difference of their best
// token lies where the cold run's best two were closer than `epsilon`.
struct LogitsComparison {
  bool same_best = false;
  double cold_gap = 0;        // best minus second best of the cold run
  double largest_change = 0;  // of any logit
};
LogitsComparison compare_logits(std::span<const float> cold, std::span<const float> other);
inline bool acceptable(const LogitsComparison& comparison, double epsilon) {
  return comparison.same_best || comparison.cold_gap < epsilon;
}

inline constexpr double kStartEpsilon = 0.5;
// Twice the largest change of the gap between a token computed alone and together with others. `gaps_alone`
// and `gaps_together` belong to the same tokens; kStartEpsilon without any.
double measured_epsilon(std::span<const double> gaps_alone, std::span<const double> gaps_together);

}  // namespace gezel::kvcache
