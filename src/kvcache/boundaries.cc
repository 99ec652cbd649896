#include "kvcache/boundaries.h"

#include <algorithm>

namespace gezel::kvcache {
namespace {

constexpr std::uint32_t kMinSpacing = 1024;
// A later turn may tokenize the end of this prompt differently: without free choice of the resume point a
// little is given up.
constexpr std::uint32_t kTailMargin = 16;

}  // namespace

std::uint32_t checkpoint_spacing(Bytes checkpoint_bytes, Bytes row_bytes_per_token) {
  if (row_bytes_per_token == 0) return kMinSpacing;
  const Bytes tokens = (checkpoint_bytes + row_bytes_per_token - 1) / row_bytes_per_token;
  return static_cast<std::uint32_t>(std::clamp<Bytes>(tokens, kMinSpacing, 1U << 30));
}

std::vector<Boundary> plan_boundaries(std::span<const std::uint64_t> token_ends, std::span<const Key> keys,
                                      std::span<const TextSpan> spans, const BoundaryOptions& options) {
  const auto size = static_cast<std::uint32_t>(keys.size());
  std::vector<Boundary> wanted;
  std::uint32_t system_end = 0;
  // The last token edge at or before a byte.
  const auto tokens_at = [&](std::uint64_t byte) {
    const auto edge = std::upper_bound(token_ends.begin(), token_ends.end(), byte) - token_ends.begin();
    return static_cast<std::uint32_t>(outside_media(keys, std::min<std::size_t>(edge, size)));
  };
  for (const TextSpan& span : spans) {
    const std::uint32_t tokens = tokens_at(span.kind == SpanKind::user ? span.begin : span.end);
    if (span.kind == SpanKind::system) system_end = std::max(system_end, tokens);
    wanted.push_back({tokens, Class::user});
  }
  const bool checkpoints = needs_checkpoint(options.mode);
  if (checkpoints) {
    if (size > kTailMargin)
      wanted.push_back({static_cast<std::uint32_t>(outside_media(keys, size - kTailMargin))});
    for (std::uint64_t at = options.spacing; options.spacing > 0 && at < size; at += options.spacing)
      wanted.push_back({static_cast<std::uint32_t>(outside_media(keys, at))});
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const Boundary& a, const Boundary& b) { return a.tokens < b.tokens; });

  const std::uint32_t smallest = checkpoints ? 256 : 32;
  std::vector<Boundary> kept;
  std::uint32_t before = options.after;
  for (const Boundary& boundary : wanted) {
    const std::uint32_t tokens = boundary.tokens;
    if (tokens == 0 || tokens >= size || tokens <= options.after) continue;
    if (!kept.empty() && kept.back().tokens == tokens) continue;
    const bool is_system_end = tokens == system_end;
    // The margin before the end is where the next turn resumes: it counts more than what lies shortly before
    // it.
    const bool is_margin = checkpoints && tokens + kTailMargin >= size && tokens > system_end;
    if (!is_system_end && tokens - before < smallest) {
      if (!is_margin || kept.empty() || kept.back().tokens == system_end) continue;
      kept.pop_back();
    }
    kept.push_back({tokens, tokens <= system_end ? Class::system : Class::user});
    before = tokens;
  }
  if (size > options.after) kept.push_back({size, size <= system_end ? Class::system : Class::user});
  return kept;
}

}  // namespace gezel::kvcache
