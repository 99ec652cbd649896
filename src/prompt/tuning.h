// prompt/tuning.h
//
// What holds for a model when a request does not say otherwise, and how the model writes: settled by the
// daemon from profiles and the model's file (src/profiles), sent to the worker when the model is loaded.
// Plain data, and how a request is laid over it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/behaviors.h"
#include "prompt/request.h"

namespace gezel::prompt {

// How a model writes calls and reasoning.
struct WritingStyle {
  std::string dialect;  // of grammar/tool_grammar.h; "": its template shows no call
  std::string family;   // of turn/family.h; "": the universal forms
  // A pair of reasoning markers beside those that every model is known by; both "" without one.
  std::string reasoning_open, reasoning_close;
  Behaviors behaviors;  // what must be done differently for it
};

// Words that switch thinking where they stand in a user's message, for models that were trained on them
// ("/think", "/no_think"); both "" for others.
struct PromptTags {
  std::string think, no_think;
};

struct Tuning {
  SamplingOptions sampling;
  // Instead of `sampling` where the prompt makes the model reason; complete, not a difference.
  SamplingOptions sampling_when_thinking;
  std::string template_kwargs;         // one JSON object text; "" = none
  std::optional<int> max_tokens;       // of an answer
  std::optional<int> thinking_budget;  // tokens of one reasoning block
  PromptTags tags;
};

// What a named tuning profile (tuning_profiles.h) makes of a model's tuning; complete, not a difference.
struct NamedTuning {
  std::string profile;
  Tuning tuning;
};

struct ChosenTuning {
  std::string profile;  // "": none; the model's values as they are
  Tuning tuning;
};
// The tuning of the profile `wanted` or of the first of its fallbacks that `named` has; else `base`.
ChosenTuning choose_tuning(const Tuning& base, std::span<const NamedTuning> named, std::string_view wanted);

// Takes over what `over` has set. `seed`, `logit_bias` and `ignore_eos` belong to a request and stay as they
// are.
void lay_over(SamplingOptions& under, const SamplingOptions& over);

// Gives the request what it leaves open: template variables, the limit on tokens, the thinking budget. A
// request that names an effort has decided about thinking; the tuning's variables about it are left out.
// Sampling is not touched: which of the two applies is known when the prompt is rendered.
void fill_in(GenerateRequest& request, const Tuning& tuning);

// What a request says about thinking, in template variables or as an effort.
enum class ThinkingAsked { unsaid, on, off };
ThinkingAsked thinking_asked(const GenerateRequest& request);
// What the last user message says with a tag; the one that switches off wins.
ThinkingAsked thinking_tagged(const GenerateRequest& request, const PromptTags& tags);

// For templates that do not know `enable_thinking`: puts the tag behind the last user message, where the
// request has decided about thinking and the message does not hold the tag already.
void append_tag(GenerateRequest& request, const PromptTags& tags);

}  // namespace gezel::prompt
