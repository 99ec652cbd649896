// kvcache/boundaries.h
//
// Where the nodes of a prompt end (spec 40 section 11.8): where other prompts are likely to part from it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "kvcache/keys.h"
#include "kvcache/mode.h"
#include "kvcache/tree.h"

namespace gezel::kvcache {

enum class SpanKind {
  system,       // system text and tools; a boundary at its end
  user,         // content of a user message; a boundary at its start
  tool_result,  // a boundary at its end
};
// A message's content in the rendered prompt, in bytes.
struct TextSpan {
  SpanKind kind = SpanKind::user;
  std::uint64_t begin = 0, end = 0;
};

struct Boundary {
  std::uint32_t tokens = 0;  // the node holds tokens up to here
  Class cls = Class::user;
  bool operator==(const Boundary&) const = default;
};

struct BoundaryOptions {
  Mode mode = Mode::full;
  std::uint32_t spacing = 1024;  // checkpoint_spacing(); modes with checkpoints only
  std::uint32_t after = 0;       // tokens that the run need not compute: no boundaries up to there
};

// `token_ends[i]`: bytes of the rendered prompt that tokens 0..i make. Ascending boundaries, the last at the
// prompt's end. One that falls inside a token or a media span moves before it; those closer than the mode's
// smallest edge (32 tokens; 256 with checkpoints) to the one before are left out, except the end of the
// system text and the prompt's end.
std::vector<Boundary> plan_boundaries(std::span<const std::uint64_t> token_ends, std::span<const Key> keys,
                                      std::span<const TextSpan> spans, const BoundaryOptions& options);

// Tokens between the checkpoints of a long prompt: as many as take the room of one checkpoint, at least
// 1,024.
std::uint32_t checkpoint_spacing(Bytes checkpoint_bytes, Bytes row_bytes_per_token);

// Generated tokens become a node when they are at least this many.
inline constexpr std::uint32_t kMinTailTokens = 32;

}  // namespace gezel::kvcache
