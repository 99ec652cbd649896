// prompt/tuning.h
//
// What holds for a model when a request does not say otherwise, and how the model writes: settled by the
// daemon from profiles and the model's file (src/profiles), sent to the worker when the model is loaded.
// Plain data, and how a request is laid over it.
#pragma once
#include <optional>
#include <string>

#include "prompt/request.h"

namespace gezel::prompt {

// How a model writes calls and reasoning.
struct WritingStyle {
  std::string dialect;  // of grammar/tool_grammar.h; "": its template shows no call
  std::string family;   // of turn/family.h; "": the universal forms
  // A pair of reasoning markers beside those that every model is known by; both "" without one.
  std::string reasoning_open, reasoning_close;
};

struct Tuning {
  SamplingOptions sampling;
  // Instead of `sampling` where the prompt makes the model reason; complete, not a difference.
  SamplingOptions sampling_when_thinking;
  std::string template_kwargs;         // one JSON object text; "" = none
  std::optional<int> max_tokens;       // of an answer
  std::optional<int> thinking_budget;  // tokens of one reasoning block
};

// Takes over what `over` has set. `seed`, `logit_bias` and `ignore_eos` belong to a request and stay as they
// are.
void lay_over(SamplingOptions& under, const SamplingOptions& over);

// Gives the request what it leaves open: template variables, the limit on tokens, the thinking budget. A
// request that names an effort has decided about thinking; the tuning's variables about it are left out.
// Sampling is not touched: which of the two applies is known when the prompt is rendered.
void fill_in(GenerateRequest& request, const Tuning& tuning);

}  // namespace gezel::prompt
