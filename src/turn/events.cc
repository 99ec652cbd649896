#include "turn/events.h"

namespace gezel::turn {
namespace {

template <class Delta>
Delta* last(Events& events) {
  return events.empty() ? nullptr : std::get_if<Delta>(&events.back());
}

}  // namespace

void add_reasoning(Events& events, std::string_view text) {
  if (text.empty()) return;
  if (auto* delta = last<ReasoningDelta>(events)) {
    delta->text += text;
  } else {
    events.push_back(ReasoningDelta{std::string(text)});
  }
}

void add_content(Events& events, std::string_view text) {
  if (text.empty()) return;
  if (auto* delta = last<ContentDelta>(events)) {
    delta->text += text;
  } else {
    events.push_back(ContentDelta{std::string(text)});
  }
}

void add_arguments(Events& events, int index, std::string_view text) {
  if (text.empty()) return;
  if (auto* delta = last<CallArgumentsDelta>(events); delta && delta->index == index) {
    delta->text += text;
  } else {
    events.push_back(CallArgumentsDelta{index, std::string(text)});
  }
}

}  // namespace gezel::turn
