// api/chat_parts.h
//
// The parts of parse_chat_request(), one concern each. Internal to the module.
#pragma once
#include <optional>
#include <utility>

#include "api/chat.h"
#include "api/field_reader.h"

namespace gezel::api {

// A request that is well formed but asks for what cannot be done. The first one found is the answer, unless
// the body also has problems of form, which come first.
class Refusal {
 public:
  void set(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  const std::optional<ApiError>& get() const { return error_; }

 private:
  std::optional<ApiError> error_;
};

// model; "" when it was not named: without one the default model is meant (spec 60 section 15 rule 2).
void read_model(const FieldReader& body, std::string& model);
// messages -> generate.messages, translated; refuses images and what leaves nothing to answer.
void read_messages(const FieldReader& body, prompt::GenerateRequest& generate, Refusal& refusal);
// tools, tool_choice and tool_policy.
void read_tools(const FieldReader& body, prompt::GenerateRequest& generate, Refusal& refusal);
// temperature ... logit_bias, seed, ignore_eos.
void read_sampling(const FieldReader& body, prompt::SamplingOptions& sampling);

// name, description, strict and schema of a JSON Schema that answers must have; without a schema any JSON
// will do.
void read_schema(const FieldReader& fields, prompt::OutputFormat& out);
// response_format, and llama.cpp's `grammar` and `json_schema`. Reads form only: whether it can be enforced
// is check_constraints()' to say.
void read_output_format(const FieldReader& body, prompt::GenerateRequest& generate, Refusal& refusal);

}  // namespace gezel::api
