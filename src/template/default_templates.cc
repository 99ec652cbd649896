// The formats follow what the families' own templates render. None of them knows tools; calls and results of
// tools arrive as plain text (prompt/normalise.h), because the probe finds that these templates show none.
#include "template/default_templates.h"

#include <algorithm>
#include <array>

#include "prompt/default_templates.h"

namespace gezel::chat {
namespace {

constexpr std::string_view kGemma = R"({{ bos_token }}
{%- if messages and messages[0].role == 'system' -%}
  {%- set preamble = messages[0].content | trim + '\n\n' -%}
  {%- set turns = messages[1:] -%}
{%- else -%}
  {%- set preamble = '' -%}
  {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns if message.role != 'tool' -%}
  {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\n' -}}
  {{- (preamble if loop.first else '') + message.content | trim + '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif -%}
)";

constexpr std::string_view kChatMl = R"(
{%- for message in messages if message.role != 'tool' -%}
  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}
)";

constexpr std::string_view kLlama3 = R"({{ bos_token }}
{%- for message in messages if message.role != 'tool' -%}
  {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif -%}
)";

constexpr std::string_view kMistral = R"({{ bos_token }}
{%- if messages and messages[0].role == 'system' -%}
  {%- set preamble = messages[0].content | trim + '\n\n' -%}
  {%- set turns = messages[1:] -%}
{%- else -%}
  {%- set preamble = '' -%}
  {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns if message.role != 'tool' -%}
  {%- if message.role == 'assistant' -%}
    {{- ' ' + message.content | trim + eos_token -}}
  {%- else -%}
    {{- '[INST] ' + (preamble if loop.first else '') + message.content | trim + ' [/INST]' -}}
  {%- endif -%}
{%- endfor -%}
)";

constexpr std::string_view kPlain = R"({{ bos_token }}
{%- for message in messages if message.role != 'tool' -%}
  {%- if message.role == 'system' -%}
    {{- message.content | trim + '\n\n' -}}
  {%- else -%}
    {{- ('Assistant: ' if message.role == 'assistant' else 'User: ') + message.content | trim + '\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif -%}
)";

struct Format {
  std::string_view name;  // of a rule in prompt/default_templates.h
  std::string_view source;
  std::string_view stop = {};
};
constexpr std::array kFormats{
    Format{"default:gemma", kGemma},
    Format{"default:chatml", kChatMl},
    Format{"default:llama3", kLlama3},
    Format{"default:mistral", kMistral},
    Format{"default:plain", kPlain, "\nUser:"},
};
static_assert(std::ranges::all_of(prompt::kDefaultTemplateRules, [](const auto& rule) {
  return std::ranges::find(kFormats, rule.name, &Format::name) != kFormats.end();
}));

}  // namespace

const std::vector<DefaultTemplate>& default_templates() {
  static const std::vector<DefaultTemplate> kTable = [] {
    std::vector<DefaultTemplate> table;
    for (const auto& rule : prompt::kDefaultTemplateRules) {
      const auto format = std::ranges::find(kFormats, rule.name, &Format::name);
      table.push_back({rule.name, rule.control_token, format->source, {}});
      if (!format->stop.empty()) table.back().stops.emplace_back(format->stop);
    }
    return table;
  }();
  return kTable;
}

const DefaultTemplate& choose_default_template(
    const std::function<bool(std::string_view)>& has_special_token) {
  const auto& table = default_templates();
  const auto fits = [&](const DefaultTemplate& row) {
    return row.control_token.empty() || (has_special_token && has_special_token(row.control_token));
  };
  return *std::ranges::find_if(table, fits);
}

}  // namespace gezel::chat
