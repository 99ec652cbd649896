#include "prompt/context.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gezel::prompt {
namespace {

constexpr std::array<std::string_view, 6> kReserved = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

std::string_view role_name(Role role) {
  switch (role) {
    case Role::system:
      return "system";
    case Role::developer:
      return "developer";
    case Role::user:
      return "user";
    case Role::assistant:
      return "assistant";
    case Role::tool:
      return "tool";
  }
  return "user";
}

// Members and items are written with their comma after them; the last one is taken back when the bracket
// closes.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void open(char bracket) { out_ += bracket; }
  void close(char bracket) {
    if (out_.back() == ',') out_.pop_back();
    out_ += bracket;
    out_ += ',';
  }
  void key(std::string_view name) {
    out_ += json::serialize(json::string_view(name));
    out_ += ':';
  }
  void text(std::string_view value) { raw(json::serialize(json::string_view(value))); }
  void raw(std::string_view value) {
    out_ += value;
    out_ += ',';
  }
  void member(std::string_view name, std::string_view value) {
    key(name);
    text(value);
  }

 private:
  std::string& out_;
};

bool is_object(std::string_view arguments) {
  if (arguments.find('{') == std::string_view::npos) return false;
  const auto parsed = parse_json(arguments);
  return parsed && parsed->is_object();
}

void write_part(Writer& writer, const ContentPart& part) {
  writer.open('{');
  if (part.kind == ContentPart::Kind::image) {
    // The pixels go to the projector; a template only marks the place.
    writer.member("type", "image");
  } else {
    writer.member("type", "text");
    writer.member("text", part.text);
  }
  writer.close('}');
}

void write_content(Writer& writer, const Message& message, const TemplateTraits& traits) {
  const bool images = std::ranges::any_of(
      message.content, [](const ContentPart& p) { return p.kind == ContentPart::Kind::image; });
  const bool blocks = traits.reasoning == ReasoningReplay::blocks && !message.reasoning.empty();
  writer.key("content");
  if (!images && !blocks && !traits.typed_content) return writer.text(text_of(message));
  writer.open('[');
  if (blocks) {
    writer.open('{');
    writer.member("type", "thinking");
    writer.member("thinking", message.reasoning);
    writer.close('}');
  }
  for (const ContentPart& part : message.content) write_part(writer, part);
  writer.close(']');
}

void write_calls(Writer& writer, const std::vector<ToolCall>& calls, const TemplateTraits& traits) {
  writer.key("tool_calls");
  writer.open('[');
  for (const ToolCall& call : calls) {
    writer.open('{');
    writer.member("id", call.id);
    writer.member("type", "function");
    writer.key("function");
    writer.open('{');
    writer.member("name", call.name);
    writer.key("arguments");
    if (!traits.text_arguments && is_object(call.arguments)) {
      writer.raw(call.arguments);
    } else {
      writer.text(call.arguments);
    }
    writer.close('}');
    writer.close('}');
  }
  writer.close(']');
}

// The results after a message with calls, as older Gemma 4 templates take them. Returns how many messages
// they were.
std::size_t write_folded_results(Writer& writer, const std::vector<Message>& messages, std::size_t first) {
  std::size_t next = first;
  writer.key("tool_responses");
  writer.open('[');
  for (; next < messages.size() && messages[next].role == Role::tool; ++next) {
    writer.open('{');
    writer.member("name", messages[next].name);
    writer.member("response", text_of(messages[next]));
    writer.close('}');
  }
  writer.close(']');
  return next - first;
}

void write_messages(Writer& writer, const std::vector<Message>& messages, const TemplateTraits& traits) {
  writer.open('[');
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    writer.open('{');
    writer.member("role", role_name(message.role));
    write_content(writer, message, traits);
    if (!message.reasoning.empty()) {
      if (traits.reasoning == ReasoningReplay::reasoning_content)
        writer.member("reasoning_content", message.reasoning);
      if (traits.reasoning == ReasoningReplay::thinking) writer.member("thinking", message.reasoning);
    }
    if (!message.tool_calls.empty()) write_calls(writer, message.tool_calls, traits);
    if (message.role == Role::tool) {
      writer.member("tool_call_id", message.tool_call_id);
      if (!message.name.empty()) writer.member("name", message.name);
    }
    if (traits.fold_tool_results && !message.tool_calls.empty())
      i += write_folded_results(writer, messages, i + 1);
    writer.close('}');
  }
  writer.close(']');
}

}  // namespace

std::string context_text(const std::vector<Message>& messages, const std::vector<Tool>& tools,
                         const json::object& variables, const ContextTokens& tokens,
                         const TemplateTraits& traits) {
  std::string out;
  Writer writer(out);
  writer.open('{');
  writer.key("messages");
  write_messages(writer, messages, traits);
  writer.key("tools");
  if (tools.empty()) {
    writer.raw("null");
  } else {
    writer.open('[');
    for (const Tool& tool : tools) writer.raw(tool.json);
    writer.close(']');
  }
  writer.key("documents");
  writer.raw("null");
  writer.key("add_generation_prompt");
  writer.raw("true");
  writer.member("bos_token", tokens.bos);
  writer.member("eos_token", tokens.eos);
  for (const auto& [name, value] : variables) {
    if (std::ranges::find(kReserved, std::string_view(name)) != kReserved.end()) continue;
    writer.key(name);
    writer.raw(to_json(value));
  }
  writer.close('}');
  out.pop_back();  // the comma after the object itself
  return out;
}

Result<json::object> template_variables(const GenerateRequest& request, bool wants_effort) {
  json::object variables{{"enable_thinking", request.reasoning_effort != "none"}};
  if (wants_effort && !request.reasoning_effort.empty() && request.reasoning_effort != "none") {
    variables["reasoning_effort"] = request.reasoning_effort;
  }
  if (request.template_kwargs.empty()) return variables;
  auto parsed = parse_json(request.template_kwargs);
  if (!parsed) {
    Error error = std::move(parsed).error();
    error.param = "chat_template_kwargs";
    return std::unexpected(std::move(error));
  }
  if (!parsed->is_object()) {
    return fail(ErrorKind::invalid, "invalid_type",
                "chat_template_kwargs must be a JSON object of template variables.", "chat_template_kwargs");
  }
  for (const auto& [name, value] : parsed->as_object()) variables[name] = value;
  return variables;
}

}  // namespace gezel::prompt
