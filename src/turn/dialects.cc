#include "turn/dialects.h"

#include <algorithm>
#include <array>

#include "turn/call_object.h"
#include "turn/input.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

using Texts = std::span<const std::string_view>;
template <std::size_t N>
using List = std::array<std::string_view, N>;

// DeepSeek's ▁ is also written as `_`, a blank or `\_`.
constexpr List<8> kDeepseek = {
    "<｜tool▁calls▁begin｜>",     "<｜tool_calls_begin｜>",    "<｜tool calls begin｜>",
    "<｜tool\\_calls\\_begin｜>", "<｜tool▁call▁begin｜>",     "<｜tool_call_begin｜>",
    "<｜tool call begin｜>",      "<｜tool\\_call\\_begin｜>",
};
constexpr List<4> kDeepseekEnd = {"<｜tool▁calls▁end｜>", "<｜tool_calls_end｜>", "<｜tool calls end｜>",
                                  "<｜tool\\_calls\\_end｜>"};
constexpr List<8> kDsml = {
    "<｜DSML｜tool_calls>", "<｜DSML｜function_calls>", "<|DSML|tool_calls>", "<|DSML|function_calls>",
    "<DSML｜tool_calls>",   "<DSML｜function_calls>",   "<DSML|tool_calls>",  "<DSML|function_calls>",
};
constexpr List<8> kDsmlEnd = {
    "</｜DSML｜tool_calls>", "</｜DSML｜function_calls>", "</|DSML|tool_calls>", "</|DSML|function_calls>",
    "</DSML｜tool_calls>",   "</DSML｜function_calls>",   "</DSML|tool_calls>",  "</DSML|function_calls>",
};
constexpr List<1> kToolCall = {"<tool_call>"};
constexpr List<3> kToolCallEnd = {"</tool_call>", "<tool_call|>", "</tool_call|>"};
constexpr List<1> kFunctionTag = {"<function="};
constexpr List<2> kFunctionTagEnd = {"</function>", "</tool_call>"};
constexpr List<1> kParamForm = {"<function name=\""};
constexpr List<1> kParamFormEnd = {"</function>"};
constexpr List<2> kInvoke = {"<function_calls>", "<invoke name=\""};
constexpr List<2> kInvokeEnd = {"</function_calls>", "</invoke>"};
constexpr List<1> kMinimax = {"<minimax:tool_call>"};
constexpr List<1> kMinimaxEnd = {"</minimax:tool_call>"};
constexpr List<2> kPiped = {"<|tool_call>", "<|tool_call|>"};
constexpr List<1> kMistral = {"[TOOL_CALLS]"};
constexpr List<1> kPythonTag = {"<|python_tag|>"};
constexpr List<1> kPythonTagEnd = {"<|eom_id|>"};
constexpr List<2> kKimi = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"};
constexpr List<1> kKimiEnd = {"<|tool_calls_section_end|>"};
constexpr List<1> kLfm = {"<|tool_call_start|>"};
constexpr List<1> kLfmEnd = {"<|tool_call_end|>"};
constexpr List<1> kCohere = {"<|START_ACTION|>"};
constexpr List<1> kCohereEnd = {"<|END_ACTION|>"};
constexpr List<1> kNemotron = {"<TOOLCALL>"};
constexpr List<1> kNemotronEnd = {"</TOOLCALL>"};
constexpr List<1> kToolCalls = {"<tool_calls>"};
constexpr List<1> kToolCallsEnd = {"</tool_calls>"};
constexpr List<1> kSeed = {"<seed:tool_call>"};
constexpr List<1> kSeedEnd = {"</seed:tool_call>"};
constexpr List<1> kFunctionGemma = {"<start_function_call>"};
constexpr List<1> kFunctionGemmaEnd = {"<end_function_call>"};
constexpr List<3> kGeneric = {"<function_call>", "<tool>", "<tool_use>"};
constexpr List<3> kGenericEnd = {"</function_call>", "</tool>", "</tool_use>"};

constexpr List<1> kKimi3 = {"<|open|>tools<|sep|>"};
constexpr List<1> kKimi3End = {"<|close|>tools<|sep|>"};
constexpr List<1> kMinimax3 = {"]<]minimax[>[<tool_call>"};
constexpr List<1> kMinimax3End = {"]<]minimax[>[</tool_call>"};
constexpr List<1> kFunctionary = {">>>"};
constexpr List<2> kFirefunction = {" functools[", "functools["};
constexpr List<1> kApertus = {"<|tools_prefix|>"};
constexpr List<1> kApertusEnd = {"<|tools_suffix|>"};
constexpr List<1> kCommandR = {"Action:"};
constexpr List<1> kFunctionCalls = {"<function_calls>"};
constexpr List<1> kFunctionCallsEnd = {"</function_calls>"};
constexpr List<2> kGigachat = {"<|message_sep|>", "<|function_call|>"};
constexpr List<3> kMuse = {" to=", "<atem:function_calls>", "<atem:invoke name=\""};
constexpr List<1> kMuseEnd = {"</atem:function_calls>"};
constexpr List<1> kSolar = {"<|tool_calls|>"};
constexpr List<1> kSolarEnd = {"<|calls|>"};

using enum Body;

constexpr Dialect own(int row, Family family, Texts openers, Guard guard, Body body, Texts closers,
                      bool opener_in_body = false) {
  return {family_form(row), openers, guard, body, closers, family, opener_in_body};
}

constexpr auto kDialects = std::to_array<Dialect>({
    {strong(1), kToolCall, Guard::none, tagged, kToolCallEnd},
    {.source = strong(2),
     .openers = kFunctionTag,
     .guard = Guard::function_name,
     .body = function_tags,
     .closers = kFunctionTagEnd,
     .opener_in_body = true},
    {.source = strong(3)},  // through S2
    {.source = strong(4),
     .openers = kParamForm,
     .guard = Guard::quoted_name,
     .body = param_form,
     .closers = kParamFormEnd,
     .opener_in_body = true},
    {.source = strong(5)},  // S5 to S8: through S1
    {.source = strong(6)},
    {.source = strong(7)},
    {.source = strong(8)},
    {.source = strong(9),
     .openers = kInvoke,
     .guard = Guard::invoke,
     .body = invoke_xml,
     .closers = kInvokeEnd,
     .opener_in_body = true},
    {strong(10), kMinimax, Guard::none, invoke_xml, kMinimaxEnd},
    {strong(11), kDsml, Guard::none, invoke_xml, kDsmlEnd},
    {strong(12), kPiped, Guard::none, tagged, kToolCallEnd},
    {.source = strong(13)},  // through S12
    {strong(14), kMistral, Guard::none, named_json, {}},
    {strong(15), kPythonTag, Guard::none, python_tag, kPythonTagEnd},
    {.source = strong(16),
     .openers = kDeepseek,
     .guard = Guard::none,
     .body = named_json,
     .closers = kDeepseekEnd,
     .opener_in_body = true},
    {.source = strong(17)},  // through S16
    {.source = strong(18),
     .openers = kKimi,
     .guard = Guard::none,
     .body = named_json,
     .closers = kKimiEnd,
     .opener_in_body = true},
    {strong(19), kLfm, Guard::none, python_calls, kLfmEnd},
    {strong(20), kCohere, Guard::none, json_calls, kCohereEnd},
    {strong(21), kNemotron, Guard::none, json_calls, kNemotronEnd},
    {strong(22), kToolCalls, Guard::calls, json_calls, kToolCallsEnd},
    {strong(23), kSeed, Guard::none, function_tags, kSeedEnd},
    {strong(24), kFunctionGemma, Guard::none, named_json, kFunctionGemmaEnd},
    {strong(25), kGeneric, Guard::known_call, json_calls, kGenericEnd},

    {.source = family_form(1), .family = Family::harmony},  // harmony.cc
    own(2, Family::kimi_k3, kKimi3, Guard::none, kimi_k3, kKimi3End),
    own(3, Family::minimax_m3, kMinimax3, Guard::none, minimax_m3, kMinimax3End),
    own(4, Family::functionary, kFunctionary, Guard::line_start_name, named_json, {}),
    own(5, Family::firefunction, kFirefunction, Guard::none, json_calls, {}, true),
    own(6, Family::apertus, kApertus, Guard::none, json_calls, kApertusEnd),
    own(7, Family::command_r, kCommandR, Guard::line_start_json, json_calls, {}),
    own(8, Family::olmo3, kFunctionCalls, Guard::line_call, python_calls, kFunctionCallsEnd),
    own(9, Family::gigachat, kGigachat, Guard::function_role, json_calls, {}),
    own(10, Family::muse, kMuse, Guard::recipient, invoke_xml, kMuseEnd, true),
    own(11, Family::solar, kSolar, Guard::none, named_json, kSolarEnd),
});

// --- guards

// A tail of the text that may become `literal`.
bool may_become(std::string_view text, std::string_view literal, bool ended) {
  return !ended && text.size() < literal.size() && literal.starts_with(text);
}

Look begins(std::string_view text, std::string_view literal, bool ended) {
  if (text.starts_with(literal)) return Look::yes;
  return may_become(text, literal, ended) ? Look::wait : Look::no;
}

// Space before what a guard looks for; more of it is no call.
constexpr std::size_t kMaxGuardSpace = 256;

// The text behind white space; nothing if the text ends before that is known.
std::optional<std::string_view> behind_space(std::string_view text, bool ended) {
  const std::string_view bounded = text.substr(0, kMaxGuardSpace);
  const auto end = std::ranges::find_if_not(bounded, is_space);
  if (end == bounded.end()) {
    if (bounded.size() == kMaxGuardSpace || ended) return std::string_view();
    return std::nullopt;
  }
  return text.substr(static_cast<std::size_t>(end - bounded.begin()));
}

// NAME and `after`. What the end of the text cuts was going to be one.
Look name_then(std::string_view text, std::string_view after, bool ended, bool cut_counts = false) {
  const Look cut = !ended ? Look::wait : cut_counts ? Look::yes : Look::no;
  if (text.empty()) return cut;
  if (!is_name_start(text.front())) return Look::no;
  const std::string_view bounded = text.substr(0, kMaxName + 1);
  const auto end = std::ranges::find_if_not(bounded, is_name_char);
  const auto size = static_cast<std::size_t>(end - bounded.begin());
  if (size > kMaxName) return Look::no;
  if (text.substr(size).starts_with(after)) return Look::yes;
  return after.starts_with(text.substr(size)) ? cut : Look::no;
}

constexpr std::size_t kMaxNamespace = 32;
constexpr std::string_view kInvokeTag = "invoke name=\"";
constexpr std::string_view kCallsTag = "function_calls>";

// `<` ([a-z]+ `:`)? `invoke name="`, also with a DSML prefix.
Look invoke_tag(std::string_view text, bool ended) {
  const Look plain = begins(text, "<invoke name=\"", ended);
  if (plain != Look::no) return plain;
  for (const std::string_view prefix : {"<｜DSML｜", "<|DSML|", "<DSML｜", "<DSML|"}) {
    if (text.starts_with(prefix)) return begins(text.substr(prefix.size()), kInvokeTag, ended);
    if (may_become(text, prefix, ended)) return Look::wait;
  }
  std::size_t size = 0;
  const Look named = namespaced_opener(text, ended, size);
  return named == Look::yes && text[size - 1] != '"' ? Look::no : named;
}

Look first_of(std::optional<std::string_view> text, std::string_view bytes, bool or_invoke, bool ended) {
  if (!text) return Look::wait;
  if (text->empty()) return Look::no;
  if (bytes.contains(text->front())) return Look::yes;
  return or_invoke ? invoke_tag(*text, ended) : Look::no;
}

// A call object of a known tool, complete within kMaxGuarded bytes.
Look known_call(std::string_view text, bool ended, const ToolNames& tools) {
  const auto rest = behind_space(text, ended);
  if (!rest) return Look::wait;
  if (!rest->starts_with('{')) return Look::no;
  const std::string_view bounded = rest->substr(0, kMaxGuarded);
  JsonExtent extent;
  JsonStatus status = extent.feed(bounded);
  if (status == JsonStatus::incomplete) {
    if (bounded.size() < kMaxGuarded && !ended) return Look::wait;
    return Look::no;
  }
  if (status != JsonStatus::complete) return Look::no;
  const JsonRead read = read_json(bounded.substr(0, extent.end()));
  if (read.status != JsonStatus::complete) return Look::no;
  const auto call = as_call_object(read.value, tools);
  return call && tools.resolve(call->name) ? Look::yes : Look::no;
}

}  // namespace

std::span<const Dialect> dialects() {
  return kDialects;
}

const Dialect& dialect(Source source) {
  return *std::ranges::find(kDialects, source, &Dialect::source);
}

Look namespaced_opener(std::string_view text, bool ended, std::size_t& size) {
  std::size_t at = 1;
  while (at < text.size() && at <= kMaxNamespace && text[at] >= 'a' && text[at] <= 'z') ++at;
  if (at == text.size()) return ended || at > kMaxNamespace ? Look::no : Look::wait;
  if (at == 1 || text[at] != ':') return Look::no;
  ++at;
  for (const std::string_view tag : {kInvokeTag, kCallsTag}) {
    const Look found = begins(text.substr(at), tag, ended);
    if (found == Look::no) continue;
    size = at + tag.size();
    return found;
  }
  return Look::no;
}

Look check_guard(Guard guard, std::string_view text, std::size_t size, bool ended, bool line_start,
                 const ToolNames& tools) {
  const std::string_view rest = text.substr(size);
  switch (guard) {
    case Guard::none:
      return Look::yes;
    case Guard::function_name:
      return name_then(rest, ">", ended, true);
    case Guard::quoted_name:
      return name_then(rest, "\">", ended, true);
    case Guard::invoke:
      // The opener is the wrapper, or itself the invoke tag.
      if (text[size - 1] == '"') return name_then(rest, "\"", ended, true);
      return first_of(behind_space(rest, ended), "", true, ended);
    case Guard::calls:
      return first_of(behind_space(rest, ended), "[{", true, ended);
    case Guard::known_call:
      return known_call(rest, ended, tools);
    case Guard::line_call: {
      const auto call = behind_space(rest, ended);
      return call ? name_then(*call, "(", ended) : Look::wait;
    }
    case Guard::line_start_name:
      return line_start ? name_then(rest, "\n", ended) : Look::no;
    case Guard::line_start_json: {
      if (!line_start) return Look::no;
      const auto fence = behind_space(rest, ended);
      return fence ? begins(*fence, "```json", ended) : Look::wait;
    }
    case Guard::function_role: {
      if (text.starts_with("<|function_call|>")) return Look::yes;
      const auto role = behind_space(rest, ended);
      return role ? begins(*role, "function call<|role_sep|>", ended) : Look::wait;
    }
    case Guard::recipient: {
      if (text[size - 1] != '=') return Look::yes;
      constexpr std::string_view kMessage = "<|message|>";
      const Look named = name_then(rest, kMessage, ended);
      if (named != Look::yes) return named;
      const auto body = behind_space(rest.substr(rest.find(kMessage) + kMessage.size()), ended);
      return body ? begins(*body, "<atem:", ended) : Look::wait;
    }
  }
  return Look::no;
}

std::span<const std::string_view> body_markers() {
  static constexpr std::string_view kMarkers[] = {"[ARGS]",
                                                  "[CALL_ID]",
                                                  "<|tool_call_begin|>",
                                                  "<|tool_call_argument_begin|>",
                                                  "<|tool_call_end|>",
                                                  "<｜tool▁call▁begin｜>",
                                                  "<｜tool▁sep｜>",
                                                  "<｜tool▁call▁end｜>",
                                                  "<|channel|>",
                                                  "<|message|>",
                                                  "<|constrain|>",
                                                  "<|start|>",
                                                  "<|end|>",
                                                  "<|call|>",
                                                  "<|\"|>",
                                                  "<escape>",
                                                  "<arg_key>",
                                                  "</arg_key>",
                                                  "<arg_value>",
                                                  "</arg_value>",
                                                  "<|open|>",
                                                  "<|close|>",
                                                  "<|sep|>",
                                                  "｜DSML｜",
                                                  "<|tool_call:begin|>",
                                                  "<|tool_call:name|>",
                                                  "<|tool_call:args|>",
                                                  "<|tool_call:end|>",
                                                  "<|role_sep|>"};
  return kMarkers;
}

}  // namespace gezel::turn
