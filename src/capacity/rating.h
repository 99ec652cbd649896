// capacity/rating.h
//
// Orders a catalog by what is best on this machine (spec 20 sections 19.2 to 19.4). Model lists show the
// result, and the first run takes its model from it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "capacity/fit.h"

namespace gezel::capacity {

struct RatedInput {
  std::string id, name;
  Bytes footprint = 0;
  std::vector<std::string> tags;
  std::optional<bool> supports_tools;
  std::optional<double> reco_score;          // the catalog's own recommendation, 0 or absent: none
  std::optional<std::string> license_class;  // "open", "restricted"
  std::string quantization;                  // "Q4_K_M"; "" = unknown
  std::optional<bool> moe;                   // from an installed file; absent: by tags
  std::optional<Bytes> non_expert_bytes;
};

// What kind of machine the ratings are for. Small devices want small dense models; memory that is large and
// slow wants few active weights; a large card has no use for offloading.
struct DevicePolicy {
  bool unified_host = false, small_only = false, prefer_moe = false, exclude_moe = false;
};
DevicePolicy device_policy(const MemoryProfile& profile);

struct Rated {
  std::string id;
  Fit fit;
  int score = 0;  // 0-100; sorting by it keeps the order
  bool recommended = false;
  int rating_class = 0;  // 3 recommended, 2 runs well, 1 runs, 0 too big
};

// One per model, best first. A model that is too big stays listed.
std::vector<Rated> rate_models(const std::vector<RatedInput>& models, const MemoryProfile& profile);

// The catalog has something to recommend: a score, an open licence, tools not ruled out.
bool gated(const RatedInput& model);

// Weights of three bits or fewer, by the quantization's name; unknown is not low.
bool is_low_bit(std::string_view quantization);

// Where the machine could not be looked at: gated models first, then by score and name.
std::vector<std::string> curated_order(std::vector<RatedInput> models);

// --- the first run

// The catalog's safe default, when no candidate is left.
inline constexpr std::string_view kSafeDefaultModel = "gemma4-e2b-q4";

struct FirstChoice {
  std::string id;
  std::string reason;  // one line
  bool best_effort = false;
  MemoryProfile profile;  // the inputs that were used
};
// `candidates` have a block for this platform's engine; those that are not gated are left out here.
FirstChoice choose_first_model(const std::vector<RatedInput>& candidates, const MemoryProfile& profile);

// Advice beside a model; never ranks.
enum class Hint { none, low_acceleration, good_match, large_dense };
Hint device_hint(const RatedInput& model, const Fit& fit, const MemoryProfile& profile);

}  // namespace gezel::capacity
