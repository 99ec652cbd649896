#include "worker/writing_style.h"

#include <algorithm>
#include <array>

namespace gezel::worker {
namespace {

// A row counts when the template holds all of its marks; the first that does is the answer. So what is
// special stands before what many share.
struct Row {
  std::array<std::string_view, 2> marks;
  WritingStyle style;
};
constexpr Row kRows[] = {
    {{"<|tool_calls_section_begin|>"}, {"kimi-k2", ""}},
    {{"<|open|>", "<|sep|>"}, {"kimi-k3", "kimi-k3"}},
    {{"]<]minimax[>["}, {"minimax-m3", "minimax-m3"}},
    {{"<minimax:tool_call>"}, {"minimax", ""}},
    {{"<seed:tool_call>"}, {"seed", ""}},
    {{"DSML", "tool_calls"}, {"dsml-tool", ""}},
    {{"DSML"}, {"dsml", ""}},
    {{"<｜tool▁calls▁begin｜>", "```json"}, {"deepseek-v3", ""}},
    {{"<｜tool▁calls▁begin｜>"}, {"deepseek-v3.1", ""}},
    {{"<start_function_call>"}, {"function-gemma", "gemma"}},
    {{"<|tool_call>", "<tool_call|>"}, {"gemma", "gemma"}},
    {{"<|tool_call_start|>"}, {"lfm2", ""}},
    {{"<|START_ACTION|>"}, {"cohere", ""}},
    {{"<TOOLCALL>"}, {"nemotron", ""}},
    {{"<|tools_prefix|>"}, {"apertus", "apertus"}},
    {{"<|tool_call:begin|>"}, {"solar", "solar"}},
    {{"<atem:function_calls>"}, {"muse", "muse"}},
    {{"<|channel|>", "functions."}, {"harmony", "harmony"}},
    {{"functools["}, {"firefunction", "firefunction"}},
    {{">>>all"}, {"functionary", "functionary-3.2"}},
    {{"[TOOL_CALLS]", "[ARGS]"}, {"mistral-args", ""}},
    {{"[TOOL_CALLS]"}, {"mistral", ""}},
    {{"<arg_key>"}, {"glm", ""}},
    {{"<function name="}, {"minicpm", ""}},
    {{"<tool_call>", "<function="}, {"qwen-xml", ""}},
    {{"<function="}, {"function-tag", ""}},
    {{"[BEGIN FINAL RESPONSE]"}, {"apriel", "apriel"}},
    {{"<tool_call>"}, {"hermes", ""}},
    {{"<tool_calls>"}, {"apriel", ""}},
    {{"<|tool_call|>"}, {"granite", "granite"}},
    {{"<|message_sep|>", "function call"}, {"gigachat", "gigachat"}},
    {{"<function_calls>", "<invoke"}, {"invoke", ""}},
    {{"<function_calls>"}, {"olmo", "olmo3"}},
    {{"<|start_header_id|>", "\"parameters\""}, {"llama-json", ""}},
    {{"<|python_tag|>"}, {"llama-json", ""}},
    {{"Action:", "tool_name"}, {"command-r", "command-r"}},
    {{"<response>"}, {"", "granite"}},
};

}  // namespace

WritingStyle writing_style(std::string_view template_source) {
  for (const Row& row : kRows) {
    if (std::ranges::all_of(row.marks, [&](std::string_view mark) { return template_source.contains(mark); }))
      return row.style;
  }
  return {};
}

}  // namespace gezel::worker
