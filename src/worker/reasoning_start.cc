#include "worker/reasoning_start.h"

#include <algorithm>

#include "turn/family.h"
#include "turn/reasoning_markers.h"

namespace gezel::worker {
namespace {

std::string_view without_space_at_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// Only at the very end: an opener further up may be what somebody wrote in a message.
bool ends_with_own_opener(std::string_view text, const prompt::WritingStyle& style) {
  return !style.reasoning_open.empty() &&
         without_space_at_end(text).ends_with(without_space_at_end(style.reasoning_open));
}

bool ends_with_closer(std::string_view text, const prompt::WritingStyle& style) {
  text = without_space_at_end(text);
  if (!style.reasoning_close.empty() && text.ends_with(without_space_at_end(style.reasoning_close)))
    return true;
  const auto family = turn::family_named(style.family).value_or(turn::Family::other);
  return std::ranges::any_of(turn::reasoning_markers(), [&](const turn::ReasoningMarkers& row) {
    const bool counts = row.scope == turn::MarkerScope::universal ||
                        (row.scope == turn::MarkerScope::family && row.family == family);
    return counts && text.ends_with(row.close);
  });
}

bool told_not_to(const prompt::GenerateRequest& request, const prompt::PromptTags& tags) {
  auto asked = prompt::thinking_asked(request);
  if (asked == prompt::ThinkingAsked::unsaid) asked = prompt::thinking_tagged(request, tags);
  return asked == prompt::ThinkingAsked::off;
}

}  // namespace

ReasoningStart reasoning_start(const prompt::GenerateRequest& request, std::string_view prompt_text,
                               bool open, const prompt::WritingStyle& style, bool reasons,
                               const prompt::PromptTags& tags) {
  if (open || ends_with_own_opener(prompt_text, style)) return {true, true};
  return {false, reasons && !told_not_to(request, tags) && !ends_with_closer(prompt_text, style)};
}

}  // namespace gezel::worker
