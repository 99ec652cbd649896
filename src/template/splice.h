// template/splice.h
//
// A prompt in which earlier answers stand as they were sampled. A template writes a call in its own way, and
// what the model wrote differs from it in a blank, an id or a line end; from there on nothing of the computed
// prompt can be used again. So the conversation is rendered a second time with marks in the place of such
// answers: what lies between the marks is the template's, and what the marks stand for is exchanged.
//
// Where the marks do not show where an answer begins and ends, the prompt stays as the template made it.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/normalise.h"
#include "prompt/request.h"

namespace gezel::chat {

struct SpliceTask {
  const std::vector<prompt::Message>& messages;  // normalised; those with `sampled` are exchanged
  const prompt::TemplateTraits& traits;
  std::string_view rendered;                // what the template made of them
  std::span<const std::string> end_tokens;  // texts of the tokens that end an answer
  // Renders other messages the same way, with the request's tools or without; nothing where the template
  // refuses.
  std::function<std::optional<std::string>(const std::vector<prompt::Message>& messages, bool with_tools)>
      render;
};

struct Spliced {
  std::string text;
  int replayed = 0;  // answers that stand as they were sampled
  int missed = 0;    // those that could not be told apart from what surrounds them
};

Spliced splice_sampled(const SpliceTask& task);

}  // namespace gezel::chat
