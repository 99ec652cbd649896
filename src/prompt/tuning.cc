#include "prompt/tuning.h"

#include "base/json.h"
#include "prompt/sampling_fields.h"

namespace gezel::prompt {
namespace {

// Template variables that say whether and how deeply to reason.
constexpr std::array kThinkingVariables{"enable_thinking", "reasoning_effort", "reasoning_strength"};

std::string joined_kwargs(const GenerateRequest& request, const Tuning& tuning) {
  auto under = parse_json(tuning.template_kwargs);
  if (!under || !under->is_object()) return request.template_kwargs;
  json::object& variables = under->get_object();
  if (!request.reasoning_effort.empty()) {
    for (const auto* name : kThinkingVariables) variables.erase(name);
  }
  if (!request.template_kwargs.empty()) {
    auto over = parse_json(request.template_kwargs);
    // What is wrong with it is said when the prompt is rendered.
    if (!over || !over->is_object()) return request.template_kwargs;
    for (const auto& [name, value] : over->get_object()) variables[name] = value;
  }
  return variables.empty() ? std::string() : to_json(variables);
}

}  // namespace

void lay_over(SamplingOptions& under, const SamplingOptions& over) {
  for (const auto& field : kSamplingNumbers) {
    if (over.*field.target) under.*field.target = over.*field.target;
  }
  for (const auto& field : kSamplingIntegers) {
    if (over.*field.target) under.*field.target = over.*field.target;
  }
  if (over.dry_sequence_breakers) under.dry_sequence_breakers = over.dry_sequence_breakers;
}

void fill_in(GenerateRequest& request, const Tuning& tuning) {
  if (!tuning.template_kwargs.empty()) request.template_kwargs = joined_kwargs(request, tuning);
  if (!request.max_output_tokens) request.max_output_tokens = tuning.max_tokens;
  if (!request.max_thinking_tokens) request.max_thinking_tokens = tuning.thinking_budget;
}

}  // namespace gezel::prompt
