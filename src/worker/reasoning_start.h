// worker/reasoning_start.h
//
// Where a rendered prompt leaves the model: inside a block of reasoning, about to begin one, or neither.
// Pure.
#pragma once
#include <string_view>

#include "prompt/request.h"
#include "prompt/tuning.h"

namespace gezel::worker {

struct ReasoningStart {
  bool open = false;    // the prompt ends inside a block
  bool thinks = false;  // the answer will begin with reasoning
};

// `open`: what is known by the markers of every model; the style's own opener is looked for at the end here.
// A model that reasons is taken to do so unless it is told not to (enable_thinking or an effort; where
// neither is said, a tag of its own in the last message) or the prompt ends with a block that is closed
// already, which is how templates say "do not think".
ReasoningStart reasoning_start(const prompt::GenerateRequest& request, std::string_view prompt_text,
                               bool open, const prompt::WritingStyle& style, bool reasons,
                               const prompt::PromptTags& tags = {});

}  // namespace gezel::worker
