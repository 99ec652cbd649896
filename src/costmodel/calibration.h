// costmodel/calibration.h
//
// With which settings a model computes fastest on this machine: what was measured of each, and which one is
// chosen (spec 35 sections 2.3 to 2.5). In which order things are measured is campaign.h. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace gezel::costmodel {

// What a load can be told.
struct Setting {
  bool flash_attention = false;
  std::string kv_type = "f16";  // "f16" | "q8_0"
  int threads = 1;
  bool operator==(const Setting&) const = default;
};

// One kind of call of the engine.
struct Point {
  enum class Kind { decode, prefill };
  Kind kind = Kind::decode;
  std::int64_t tokens = 1;  // decode: streams of one token each; prefill: tokens of one prompt
  std::int64_t depth = 0;   // tokens before them, in every stream
  bool operator==(const Point&) const = default;
};

// What is known of a point: the fastest of several calls. `quality` is 1 where nothing else used the
// processors: the smaller of the share of its time that the computing thread really ran, and how close the
// second fastest call came.
struct Sample {
  Point point;
  double ms = 0;
  double quality = 0;
  int visits = 0;  // times it was measured
};

// Below this something else ran at the same time.
inline constexpr double kCleanQuality = 0.9;

struct Candidate {
  Setting setting;
  Bytes memory = 0;  // of the context it was measured with; all had the same shape. 0: unknown
  double spent_ms = 0;
  std::vector<Sample> samples;  // in the order of measuring
};

// What a model is asked, in tokens: so deep a conversation, so much new prompt, so long an answer.
struct Mix {
  double depth = 4096, prompt = 512, decoded = 256;
};

// Times of one candidate by least squares of what was measured:
//   decode   a + c*s + e*s*D        prefill   a + b*n + e*n*d + f*d
// (CostModel has the words.) A part that was not measured is absent.
class Fit {
 public:
  explicit Fit(const Candidate& candidate);
  std::optional<double> decode_ms(double streams, double depth) const;
  std::optional<double> prefill_ms(double tokens, double depth) const;
  std::optional<double> ms(const Point& point) const;
  // The largest deviation from a sample, relative to it.
  double error() const { return error_; }

 private:
  std::vector<double> decode_, prefill_;  // coefficients; empty: not measured
  double error_ = 0;
};

// Two candidates this close are equal; then less memory counts, then flash attention.
inline constexpr double kEqualTimes = 0.05;

// The best of the candidates with this type of cache, by the predicted time of the mix; null: there is none
// of which decoding was measured. Reading prompts counts only where it was measured of all of them.
const Candidate* choose(std::span<const Candidate> candidates, std::string_view kv_type, const Mix& mix);

}  // namespace gezel::costmodel
