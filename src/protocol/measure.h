// protocol/measure.h
//
// Calibration over the wire (spec 35 section 2): one frame asks an idle worker for one short measurement with
// other settings than it was loaded with, one frame answers. A request that comes in between ends the
// measurement at once, and nothing of it is kept.
#pragma once
#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace gezel::protocol {

// A call of the engine whose time is known, for the worker's cost model.
struct KnownStep {
  std::string kind;         // decode | prefill
  std::int64_t tokens = 1;  // decode: streams; prefill: tokens of the call
  std::int64_t depth = 0;
  double ms = 0;
};

struct Measure {
  std::uint64_t id = 0;
  // Instead of measuring: give back what measuring took. The other fields say nothing.
  bool release = false;
  bool flash_attention = false;
  std::string kv_type = "f16";  // or "q8_0", which needs flash attention
  int threads = 1;
  int streams = 1;                     // of the context that is measured in
  std::int64_t context = 256;          // tokens of each
  std::string kind = "decode";         // decode | prefill
  std::int64_t tokens = 1, depth = 0;  // as in KnownStep
};

struct Measured {
  std::uint64_t id = 0;
  std::string outcome;         // measured | prepared (ask again) | interrupted | refused | released
  std::string reason;          // of a refusal
  double ms = 0, next_ms = 0;  // fastest and second fastest call; 0: there was none
  double cpu_ms = 0;           // that the decode thread ran in the fastest
  double spent_ms = 0;         // since the frame was taken up
  Bytes memory_bytes = 0;      // of the context that was measured in
};

}  // namespace gezel::protocol
