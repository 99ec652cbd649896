#include "template/probe.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "turn/reasoning_markers.h"

namespace gezel::chat {
namespace {

using prompt::Message;
using prompt::Role;
using prompt::TemplateTraits;

constexpr std::string_view kNeedle = "gzq7probe";  // a word no template holds

// Openers of the families that are recognised for themselves only (spec 50 section 3.1, rows 8 to 13).
constexpr std::array<std::string_view, 5> kFamilyMarkers = {"<|channel|>analysis", "<|open|>think",
                                                            " to=self<|message|>",
                                                            "Here are my reasoning steps:", "<|think|>"};

Message text_message(Role role, std::string text) {
  Message message;
  message.role = role;
  message.content = {{prompt::ContentPart::Kind::text, std::move(text)}};
  return message;
}

std::vector<prompt::Tool> one_tool(std::string_view name) {
  const std::string json = R"({"type":"function","function":{"name":")" + std::string(name) +
                           R"(","description":"Get it.","parameters":{"type":"object","properties":{"city":)"
                           R"({"type":"string","description":"Where."}},"required":["city"]}}})";
  return {{std::string(name), json}};
}

class Prober {
 public:
  Prober(const Renderer& renderer, const prompt::ContextTokens& tokens, std::int64_t local_seconds,
         bool functions)
      : renderer_(renderer), tokens_(tokens), local_seconds_(local_seconds), functions_(functions) {}

  bool shows(const std::vector<Message>& messages, const std::vector<prompt::Tool>& tools,
             const TemplateTraits& traits) const {
    json::object variables{{"enable_thinking", true}};
    if (functions_) add_functions(variables, tools, local_seconds_);
    const std::string context = prompt::context_text(messages, tools, variables, tokens_, traits);
    const auto rendered = renderer_.render(context, local_seconds_);
    return rendered && rendered->contains(kNeedle);
  }

 private:
  const Renderer& renderer_;
  const prompt::ContextTokens& tokens_;
  std::int64_t local_seconds_;
  bool functions_;
};

// A call with an argument, and its result.
std::vector<Message> tool_conversation(const TemplateTraits& traits, std::string_view argument,
                                       std::string_view text) {
  Message call = text_message(Role::assistant, "");
  call.tool_calls = {
      {traits.short_call_ids ? "abcdef123" : "call_1", "get_it", to_json(json::object{{"city", argument}})}};
  Message result = text_message(Role::tool, std::string(text));
  result.tool_call_id = call.tool_calls.front().id;
  result.name = "get_it";
  return {text_message(Role::user, "Hello."), std::move(call), std::move(result)};
}

prompt::ReasoningReplay reasoning_replay(std::string_view source) {
  if (source.contains("reasoning_content")) return prompt::ReasoningReplay::reasoning_content;
  if (source.contains("[THINK]") && source.contains("'thinking'")) return prompt::ReasoningReplay::blocks;
  if (source.contains("message.thinking") || source.contains("message['thinking']")) {
    return prompt::ReasoningReplay::thinking;
  }
  return prompt::ReasoningReplay::dropped;
}

}  // namespace

void add_functions(json::object& variables, const std::vector<prompt::Tool>& tools,
                   std::int64_t local_seconds) {
  std::string text = "[";
  for (const prompt::Tool& tool : tools) text += (text.size() > 1 ? ", " : "") + tool.json;
  variables["functions"] = tools.empty() ? "" : text + "]";
  variables["datetime"] = iso_time(WallTime(std::chrono::seconds(local_seconds))).substr(0, 10);
}

Probed probe(const Renderer& renderer, std::string_view source, const prompt::ContextTokens& tokens,
             bool vision, std::int64_t local_seconds) {
  const std::string needle(kNeedle);
  const bool harmony = source.contains("<|channel|>analysis");
  Probed found;
  found.functions = source.contains("+ functions") && source.contains("+ datetime");
  const Prober prober(renderer, tokens, local_seconds, found.functions);
  TemplateTraits& traits = found.traits;
  traits.vision = vision;
  traits.reasoning = reasoning_replay(source);
  traits.developer_role = harmony;
  traits.drop_content_of_calls = harmony;
  traits.short_call_ids = source.contains("[TOOL_CALLS]");
  traits.sort_tool_results = source.contains("｜DSML｜");
  traits.trim_content = source.contains("<im_patch>");

  TemplateTraits typed = traits;
  typed.typed_content = true;
  const std::vector<Message> user = {text_message(Role::user, needle)};
  traits.typed_content = !prober.shows(user, {}, traits) && prober.shows(user, {}, typed);

  traits.system_role =
      prober.shows({text_message(Role::system, needle), text_message(Role::user, "Hello.")}, {}, traits);

  // Some templates render tool messages only when tools are there.
  const auto conversation = tool_conversation(traits, "Oslo", kNeedle);
  const auto tools = one_tool("get_it");
  const auto shows_results = [&](const TemplateTraits& with) {
    return prober.shows(conversation, tools, with) || prober.shows(conversation, {}, with);
  };
  traits.tool_results = shows_results(traits);
  if (!traits.tool_results) {
    TemplateTraits as_text = traits;
    as_text.text_arguments = true;
    traits.text_arguments = traits.tool_results = shows_results(as_text);
  }
  if (!traits.tool_results && source.contains("tool_responses")) {
    TemplateTraits folded = traits;
    folded.fold_tool_results = true;
    traits.fold_tool_results = prober.shows(conversation, tools, folded);
  }

  // A template may write tool messages like any other and know nothing of calls.
  if (traits.tool_results) {
    const auto calling = tool_conversation(traits, kNeedle, "It rains.");
    traits.calls = prober.shows(calling, tools, traits) || prober.shows(calling, {}, traits);
  }

  found.tools = prober.shows({text_message(Role::user, "Hello.")}, one_tool(needle), traits);
  found.enable_thinking = source.contains("enable_thinking");
  found.reasoning = turn::mentions_reasoning_marker(source) || found.enable_thinking ||
                    std::ranges::any_of(kFamilyMarkers, [&](auto marker) { return source.contains(marker); });
  found.reasoning_effort = source.contains("reasoning_effort");
  return found;
}

}  // namespace gezel::chat
