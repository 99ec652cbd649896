#include "kvcache/resume.h"

#include <algorithm>

namespace gezel::kvcache {
namespace {

bool checkpoint_at(const Node& node) {
  return node.checkpoint != nullptr || node.disk_checkpoint();
}

// Milliseconds to bring tokens [from, to) of a node into a slot.
double load_ms(const Node& node, std::uint32_t tokens, Bytes token_bytes, const LoadRates& rates) {
  const Tier tier = !node.rows.empty() || !node.slots.empty() ? Tier::host : Tier::disk;
  return rates.load_ms(tier, tokens * token_bytes);
}

double checkpoint_ms(const Node& node, const LoadRates& rates) {
  if (node.checkpoint) return rates.load_ms(Tier::host, node.checkpoint->bytes.size());
  return node.disk ? rates.load_ms(Tier::disk, node.disk->bytes) : 0;
}

}  // namespace

std::string_view name(Miss miss) {
  switch (miss) {
    case Miss::none:
      return "none";
    case Miss::no_match:
      return "no_match";
    case Miss::short_match:
      return "short";
    case Miss::not_resumable:
      return "not_resumable";
    case Miss::too_slow:
      return "too_slow";
  }
  return "";
}

bool Resume::needs_disk() const {
  return (checkpoint_on_disk && !checkpoint) ||
         std::any_of(steps.begin(), steps.end(),
                     [](const ResumeStep& step) { return step.source == Source::disk; });
}

bool Resume::needs_export() const {
  return std::any_of(steps.begin(), steps.end(),
                     [](const ResumeStep& step) { return step.source == Source::slot; });
}

Resume plan_resume(const Tree& tree, Mode mode, const Match& match, std::uint32_t prompt_tokens,
                   Bytes token_bytes, const LoadRates& rates) {
  Resume resume;
  resume.matched = match.matched;
  const auto cold = [&](Miss miss) {
    resume.miss = miss;
    return resume;
  };
  if (match.matched == 0 || prompt_tokens == 0) return cold(Miss::no_match);
  if (mode == Mode::none) return cold(Miss::not_resumable);
  const std::uint32_t limit = std::min(match.matched, prompt_tokens - 1);
  if (limit < kMinResumeTokens) return cold(Miss::short_match);

  // Every point of the path where the run may resume is weighed: what is saved there against what all rows
  // above it and its checkpoint cost.
  bool too_slow = false;
  double rows_ms = 0, best_gain = 0;
  std::vector<NodeId> path;
  for (const NodeId id : match.path) {
    const Node* node = tree.find(id);
    if (node == nullptr || node->start >= limit || (keeps_rows(mode) && !node->has_rows())) break;
    path.push_back(id);
    std::uint32_t tokens = std::min(limit, node->end), imported = tokens;
    bool usable = true;
    double checkpoint = 0;
    if (needs_checkpoint(mode)) {
      imported = node->end;
      // A window reaches one token further back than its own position needs.
      usable = checkpoint_at(*node) && imported <= match.matched &&
               (imported == tokens || (mode == Mode::window && imported == tokens + 1));
      checkpoint = checkpoint_ms(*node, rates);
    }
    if (keeps_rows(mode))
      rows_ms += load_ms(*node, std::min(imported, node->end) - node->start, token_bytes, rates);
    if (!usable || tokens < kMinResumeTokens) continue;
    const double gain = rates.prefill_ms(tokens) - rows_ms - checkpoint;
    if (gain < 0) too_slow = true;
    if (gain < best_gain) continue;
    best_gain = gain;
    resume.tokens = tokens;
    resume.imported = imported;
    resume.node = id;
    resume.checkpoint = needs_checkpoint(mode) ? node->checkpoint : nullptr;
    resume.checkpoint_on_disk = needs_checkpoint(mode) && !node->checkpoint;
  }
  if (resume.node == kNoNode) return cold(too_slow ? Miss::too_slow : Miss::not_resumable);
  if (!keeps_rows(mode)) return resume;
  for (const NodeId id : path) {
    const Node& node = *tree.find(id);
    if (node.start >= resume.imported) break;
    resume.steps.push_back({.node = id,
                            .from = node.start,
                            .to = std::min(node.end, resume.imported),
                            .source = !node.rows.empty()                ? Source::host
                                      : node.disk && node.slots.empty() ? Source::disk
                                                                        : Source::slot,
                            .slot = node.slots.empty() ? -1 : node.slots.front()});
  }
  return resume;
}

std::optional<std::vector<Piece>> pieces_of(const Tree& tree, const Resume& resume) {
  // By the path and not by the steps: nodes may have been split since.
  std::vector<Piece> pieces;
  std::uint32_t at = 0;
  for (const NodeId id : tree.path(resume.node)) {
    for (const Piece& piece : tree.find(id)->rows) {
      if (at >= resume.imported) break;
      const std::uint32_t tokens = std::min(piece.tokens(), resume.imported - at);
      pieces.push_back({piece.part, piece.from, piece.from + tokens});
      at += tokens;
    }
    if (at < std::min(resume.imported, tree.find(id)->end)) return std::nullopt;
  }
  if (at < resume.imported) return std::nullopt;
  return pieces;
}

bool import_succeeded(Bytes returned, Bytes image_bytes, std::int32_t position_min, std::int32_t position_max,
                      std::int32_t last_position, Mode mode) {
  return returned == image_bytes && returned > 0 && position_max == last_position &&
         (mode != Mode::full || position_min == 0);
}

}  // namespace gezel::kvcache
