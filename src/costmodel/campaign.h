// costmodel/campaign.h
//
// The order in which a calibration measures, and when it has measured enough. Whoever can run the engine asks
// next(), makes that measurement, tells what came of it, and asks again; in between anything may happen, and
// what was measured stays.
//
// On a machine that has other work a single measurement says little. So a point counts at once only if the
// measuring thread had its processor and two calls agree; otherwise it is measured again in a later round,
// the fastest call of all rounds counts, and after some rounds that is taken as it is. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/calibration.h"

namespace gezel::costmodel {

inline constexpr double kSliceMs = 250;       // no measurement is planned that takes longer
inline constexpr double kCampaignMs = 4'000;  // of engine time for a first round of all candidates
inline constexpr int kMostVisits = 4;         // of one point
inline constexpr std::int64_t kMiddleDepth = 2'048, kDeepest = 8'192;
inline constexpr std::int64_t kLongestChunk = 512;

// The context that a candidate is measured in.
struct Shape {
  int streams = 1;
  std::int64_t context = 0;  // tokens of each
  bool operator==(const Shape&) const = default;
};

struct Question {
  Setting setting;
  Shape shape;
  Point point;
};

struct CampaignOptions {
  std::string kv_type = "f16";
  int threads = 1;         // that this process may use
  int physical_cores = 0;  // of them; 0, or as many: no candidate of its own
  std::vector<bool> flash_attention{false, true};
  std::int64_t window = 2'048;  // of the loaded model: no depth above it
  Bytes token_bytes = 1;        // of the cache, per token of one stream
  Bytes memory = 0;             // that a measuring context and the image of its depth may take
};

class Campaign {
 public:
  // `known`: what earlier campaigns measured, with whatever settings; it is gone on from.
  explicit Campaign(CampaignOptions options, std::vector<Candidate> known = {});

  // Nothing: all is measured.
  std::optional<Question> next() const;
  struct Answer {
    double ms = 0, next_ms = 0;  // fastest and second fastest call; 0: there was only one
    double cpu_ms = 0;           // that the computing thread ran in the fastest
    double spent_ms = 0;         // engine time, preparation included
    Bytes memory = 0;            // of the context
  };
  void measured(const Question& question, const Answer& answer);
  // Somebody needed the engine; nothing of the measurement is kept.
  void interrupted(const Question&) {}
  // It cannot be measured: no memory, or the engine cannot make the depth. Fewer streams, then less depth.
  void refused(const Question& question);

  // Every point of this round was measured before: it is worth waiting until the machine is quieter.
  bool repeating() const;
  double progress() const;  // 0..1, of the first round
  const std::vector<Candidate>& candidates() const { return candidates_; }
  // Whether everything that `kv_type` needs was measured without company.
  bool clean() const;

 private:
  struct Step {
    Shape shape;
    Point point;
    bool anchor = false;  // measured however long it is expected to take: others are predicted from it
  };
  std::vector<Step> steps() const;
  std::vector<Setting> settings() const;
  const Candidate* find(const Setting& setting) const;
  Candidate& entry(const Setting& setting);
  bool wanted(const Candidate* candidate, const Step& step) const;
  double budget_ms() const;

  CampaignOptions options_;
  std::vector<Candidate> candidates_;
  int streams_ = 4;
  std::int64_t deepest_ = kDeepest;
  bool exhausted_ = false;  // not even the smallest shape can be had
};

}  // namespace gezel::costmodel
