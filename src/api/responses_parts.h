// api/responses_parts.h
//
// The parts of parse_responses_request(), one concern each. Internal to the module.
#pragma once
#include "api/chat_parts.h"
#include "api/responses.h"

namespace gezel::api {

// tools, tool_choice: what the model is offered, and who is who among them.
void read_responses_tools(const FieldReader& body, ResponsesRequest& request, Refusal& refusal);
// instructions and input -> messages.
void read_responses_input(const FieldReader& body, ResponsesRequest& request, Refusal& refusal);

// What a model is told of the input of a custom tool: {"input": <text>}.
std::string wrap_custom_input(std::string_view input);

}  // namespace gezel::api
