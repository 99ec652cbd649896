#include "template/probe.h"

#include <string>
#include <utility>
#include <vector>

#include "template/reasoning_markers.h"

namespace gezel::chat {
namespace {

using prompt::Message;
using prompt::Role;
using prompt::TemplateTraits;

constexpr std::string_view kNeedle = "gzq7probe";  // a word no template holds

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

// Fixtures are rendered with thinking on and with off: some templates raise in one of them.
class Prober {
 public:
  Prober(const Renderer& renderer, const prompt::ContextTokens& tokens, std::int64_t local_seconds)
      : renderer_(renderer), tokens_(tokens), local_seconds_(local_seconds) {}

  bool shows(const std::vector<Message>& messages, const std::vector<prompt::Tool>& tools,
             const TemplateTraits& traits) const {
    const json::object variables{{"enable_thinking", true}};
    const std::string context = prompt::context_text(messages, tools, variables, tokens_, traits);
    const auto rendered = renderer_.render(context, local_seconds_);
    return rendered && rendered->contains(kNeedle);
  }

 private:
  const Renderer& renderer_;
  const prompt::ContextTokens& tokens_;
  std::int64_t local_seconds_;
};

std::vector<Message> tool_conversation(const TemplateTraits& traits) {
  Message call = text_message(Role::assistant, "");
  call.tool_calls = {{traits.short_call_ids ? "abcdef123" : "call_1", "get_it", R"({"city":"Oslo"})"}};
  Message result = text_message(Role::tool, std::string(kNeedle));
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

Probed probe(const Renderer& renderer, std::string_view source, const prompt::ContextTokens& tokens,
             bool vision, std::int64_t local_seconds) {
  const Prober prober(renderer, tokens, local_seconds);
  const std::string needle(kNeedle);
  const bool harmony = source.contains("<|channel|>analysis");
  Probed found;
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
  const auto conversation = tool_conversation(traits);
  const auto tools = one_tool("get_it");
  traits.tool_results = prober.shows(conversation, tools, traits) || prober.shows(conversation, {}, traits);
  if (!traits.tool_results && source.contains("tool_responses")) {
    TemplateTraits folded = traits;
    folded.fold_tool_results = true;
    traits.fold_tool_results = prober.shows(conversation, tools, folded);
  }

  found.tools = prober.shows({text_message(Role::user, "Hello.")}, one_tool(needle), traits);
  found.reasoning = mentions_reasoning_marker(source) || source.contains("enable_thinking");
  found.reasoning_effort = source.contains("reasoning_effort");
  return found;
}

}  // namespace gezel::chat
