// prompt/default_templates.h
//
// Which chat template stands in for the one that a model file does not bring: told by the control tokens of
// its vocabulary. The daemon says so before the model is loaded (models/default_template.h), the worker does
// it (template/default_templates.h).
#pragma once
#include <array>
#include <string_view>

namespace gezel::prompt {

struct DefaultTemplateRule {
  std::string_view name;
  std::string_view control_token;  // the vocabulary has it; "" = always fits
};

// The first rule that fits holds.
inline constexpr std::array kDefaultTemplateRules{
    DefaultTemplateRule{"default:gemma", "<start_of_turn>"},
    DefaultTemplateRule{"default:chatml", "<|im_start|>"},
    DefaultTemplateRule{"default:llama3", "<|start_header_id|>"},
    DefaultTemplateRule{"default:mistral", "[INST]"},
    DefaultTemplateRule{"default:plain", ""},
};

}  // namespace gezel::prompt
