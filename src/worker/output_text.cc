#include "worker/output_text.h"

#include "turn/dialects.h"
#include "turn/reasoning_markers.h"

namespace gezel::worker {
namespace {

// A vocabulary spells markers token by token ("<|channel|>", "[ARGS]"), the tables of `turn` as they follow each
// other: a control token counts when it is part of one of them.
bool is_part_of_a_marker(std::string_view name) {
  if (name.size() < 3) return false;
  const auto holds = [name](std::string_view marker) { return marker.find(name) != std::string_view::npos; };
  for (const auto& row : turn::reasoning_markers()) {
    if (holds(row.open) || holds(row.close)) return true;
  }
  for (const auto& row : turn::dialects()) {
    for (const auto opener : row.openers) {
      if (holds(opener)) return true;
    }
    for (const auto closer : row.closers) {
      if (holds(closer)) return true;
    }
  }
  for (const auto name_in_body : turn::body_markers()) {
    if (holds(name_in_body)) return true;
  }
  for (const auto& framing : turn::family_framing()) {
    if (holds(framing.token)) return true;
  }
  return false;
}

}  // namespace

OutputText::OutputText(const llama::Vocab& vocab) : vocab_(vocab), marker_(static_cast<std::size_t>(vocab.size())) {
  for (llama::Token token = 0; token < vocab.size(); ++token) {
    if (!vocab.is_control(token) || vocab.is_end_of_generation(token)) continue;
    marker_[static_cast<std::size_t>(token)] = is_part_of_a_marker(vocab.piece(token, true));
  }
}

std::string_view OutputText::operator()(llama::Token token) const {
  const bool shown = token >= 0 && token < vocab_.size() && marker_[static_cast<std::size_t>(token)];
  return vocab_.piece(token, shown);
}

}  // namespace gezel::worker
