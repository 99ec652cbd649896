#include "costmodel/chunk_plan.h"

#include <algorithm>

namespace gezel::costmodel {
namespace {

constexpr std::int64_t kAloneTokens =
    512;  // no stream is live: a cancel or a newcomer waits no longer than this
constexpr double kAloneMs = 500;
constexpr std::int64_t kFirstChunk = 64;  // while streams are live and nothing is known yet
constexpr std::int64_t kChunkUnit = 16;
// Where even one unit takes longer than the streams can wait (slow processor, deep prompt), finer pieces keep
// their pace: without flash attention a row costs nearly the same in a call of 4 as in one of 16.
constexpr std::int64_t kSmallestChunk = 4;
constexpr double kDecodeShare = 1.5;     // the target never asks for less than this multiple of a decode step
constexpr double kShortPromptMs = 150;   // a prompt this short runs at once
constexpr double kRaisedTargetMs = 200;  // the target's ceiling while several prompts wait
constexpr double kWaitingSlowdown =
    1.5;  // a waiting prompt should take no more than this multiple of its time alone

std::int64_t round_down(std::int64_t value, std::int64_t unit) {
  return value / unit * unit;
}

// Cuts `remaining` at about `chunk`, avoiding a last piece that the kernels compute slowly or, with one row,
// differently from the same token in a larger call (spec 40 sections 11.12.3 and 11.16.2).
std::int64_t avoid_bad_remainder(std::int64_t chunk, std::int64_t remaining, std::int64_t smallest_piece) {
  if (chunk >= remaining) return remaining;
  const std::int64_t rest = remaining - chunk;
  if (rest >= smallest_piece) return chunk;
  const std::int64_t shortened = remaining - smallest_piece;
  return shortened >= smallest_piece ? shortened : remaining;
}

}  // namespace

ChunkAnswer plan_chunk(const ChunkQuestion& q, const CostModel& costs) {
  const std::int64_t unit = q.tiles_of_64 ? 64 : kChunkUnit;
  const std::int64_t smallest = q.tiles_of_64 ? 64 : kSmallestChunk;
  const std::int64_t smallest_piece = q.tiles_of_64 ? 64 : 2;
  std::int64_t limit = 0;
  if (q.streams == 0) {
    limit = kAloneTokens;
    if (costs.knows_prefill()) limit = std::min(limit, costs.prefill_tokens_within(kAloneMs, q.prompt_depth));
  } else if (!costs.knows_prefill()) {
    limit = kFirstChunk;
  } else {
    const double decode_ms = costs.decode_ms(q.streams, q.stream_depth);
    const double whole_ms = costs.prefill_ms(q.remaining, q.prompt_depth);
    const std::int64_t room = q.batch_tokens - q.streams;
    if (whole_ms <= kShortPromptMs && q.whole_prompt_allowed && q.remaining <= room) {
      const bool exception = decode_ms + whole_ms > q.target_ms;
      return {q.remaining, exception};
    }
    double target = std::max(q.target_ms, kDecodeShare * decode_ms);
    if (q.prompts_waiting >= 2) {
      // A prompt gets (target - decode) of every target; T / (T - decode) <= slowdown gives the target it
      // needs.
      const double needed = decode_ms * kWaitingSlowdown / (kWaitingSlowdown - 1);
      target = std::max(target, std::min(needed, kRaisedTargetMs));
    }
    limit = std::min(costs.prefill_tokens_within(target - decode_ms, q.prompt_depth), room);
  }
  const std::int64_t chunk = std::max(round_down(limit, limit >= unit ? unit : smallest), smallest);
  return {avoid_bad_remainder(chunk, q.remaining, smallest_piece), false};
}

}  // namespace gezel::costmodel
