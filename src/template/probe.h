// template/probe.h
//
// What a template can take and what it shows, found by rendering small fixtures with a marker in them and
// looking whether the marker comes out. Nothing is inferred from a family's name; what no fixture can show is
// read from the source (spec 50 section 2.2).
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "prompt/context.h"
#include "prompt/normalise.h"
#include "template/renderer.h"

namespace gezel::chat {

struct Probed {
  prompt::TemplateTraits traits;
  bool tools = false;             // a tool that is offered is shown to the model
  bool reasoning = false;         // mentions a reasoning marker or `enable_thinking`
  bool enable_thinking = false;   // mentions the variable
  bool reasoning_effort = false;  // mentions the variable
  bool functions = false;  // takes `functions` and `datetime` as text instead of `tools` (FireFunction)
};

// `functions` (the tools as JSON text) and `datetime` for templates that ask for them.
void add_functions(json::object& variables, const std::vector<prompt::Tool>& tools,
                   std::int64_t local_seconds);

Probed probe(const Renderer& renderer, std::string_view source, const prompt::ContextTokens& tokens,
             bool vision, std::int64_t local_seconds);

}  // namespace gezel::chat
