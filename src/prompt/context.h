// prompt/context.h
//
// The variables of a chat template as the text of one JSON object. Text rather than a tree, because tools and
// arguments are inserted exactly as the caller wrote them: same bytes in, same bytes out, which prefix caches
// live on (spec 50 section 2.4).
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "prompt/normalise.h"
#include "prompt/request.h"

namespace gezel::prompt {

struct ContextTokens {
  std::string bos;
  std::string eos;
};

// {"messages": [...], "tools": [...] or null, "documents": null, "add_generation_prompt": true, "bos_token":
// ..., "eos_token":
// ..., and `variables`}. A variable with the name of one of these members is left out: it is not the caller's
// to set. `messages` are normalised (prompt/normalise.h). A call's arguments are an object when they parse as
// one and a string otherwise.
std::string context_text(const std::vector<Message>& messages, const std::vector<Tool>& tools,
                         const json::object& variables, const ContextTokens& tokens,
                         const TemplateTraits& traits);

// The template variables of a request: {"enable_thinking": true}, the reasoning effort, then the request's
// own `template_kwargs` on top (spec 50 sections 2.1 and 2.5). Effort "none" turns thinking off and is not
// passed; another effort is passed when `wants_effort`. Error `invalid_json` or `invalid_type` when
// template_kwargs is not an object.
Result<json::object> template_variables(const GenerateRequest& request, bool wants_effort);

}  // namespace gezel::prompt
