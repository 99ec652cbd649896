// costmodel/chunk_plan.h
//
// How many tokens of a waiting prompt the next step computes, so that running streams keep their pace (spec
// 40 section 11.12.3). Pure: the scheduler asks before every prefill call.
#pragma once
#include <cstdint>

#include "costmodel/cost_model.h"

namespace gezel::costmodel {

struct ChunkQuestion {
  int streams = 0;                // runs that decode in this step
  std::int64_t stream_depth = 0;  // tokens of the deepest of them
  std::int64_t prompt_depth = 0;  // tokens of the prompt that are already computed
  std::int64_t remaining = 0;     // tokens of the prompt still to compute, >= 1
  int prompts_waiting = 1;        // this one and those behind it
  bool tiles_of_64 = false;       // flash attention on a CPU: its kernel is slow below 64 rows
  std::int64_t batch_tokens = 2048;
  double target_ms = 130;            // wanted gap between tokens of a live stream
  bool whole_prompt_allowed = true;  // the last exception for a short prompt is long enough ago
};

struct ChunkAnswer {
  std::int64_t tokens = 0;    // 1..remaining
  bool whole_prompt = false;  // the exception for short prompts was used
};

ChunkAnswer plan_chunk(const ChunkQuestion& question, const CostModel& costs);

}  // namespace gezel::costmodel
