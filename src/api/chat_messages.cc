// Messages as a client of chat completions sends them (spec 10 section 6.2).
#include <fmt/format.h>

#include "api/chat_parts.h"
#include "api/conversation.h"

namespace gezel::api {
namespace {

using prompt::Message;
using prompt::Role;

std::optional<Role> read_role(const FieldReader& message) {
  const auto name = message.required_string("role");
  if (!name) return std::nullopt;
  if (const auto role = role_named(*name)) return role;
  message.problem("role", "must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
  return std::nullopt;
}

ApiError no_images(const std::string& path) {
  return invalid_request("unsupported_content",
                         fmt::format("{}: images are not supported yet; send text parts only", path), path);
}

// Text of one part, or nothing where the part has none (an image that is dropped or refused, a malformed
// part).
std::optional<std::string_view> read_part(const FieldReader& part, Role role, Refusal& refusal) {
  const auto type = part.required_string("type");
  if (!type) return std::nullopt;
  if (*type == "text" || *type == "refusal") {
    const auto text = part.string(*type);
    if (part.field(*type) == nullptr) part.problem(*type, "is required and must be a string");
    return text;
  }
  if (*type == "image_url") {
    const auto* image = part.object("image_url");
    if (image == nullptr) {
      if (part.field("image_url") == nullptr) part.problem("image_url", "is required and must be an object");
      return std::nullopt;
    }
    const FieldReader fields(*image, part.path_of("image_url"), part.problems());
    fields.required_string("url");
    const auto detail = fields.string("detail");
    if (detail && *detail != "auto" && *detail != "low" && *detail != "high") {
      fields.problem("detail", "must be \"auto\", \"low\" or \"high\"");
    }
    // Images of system texts and tool results never reach a model (spec 10 sections 6.2.1 and 6.2.3).
    if (!is_system(role) && role != Role::tool) refusal.set(no_images(part.path()));
    return std::nullopt;
  }
  refusal.set(invalid_request(
      "unsupported_content",
      fmt::format("{}: parts of type \"{}\" are not supported; send text parts", part.path(), excerpt(*type)),
      part.path()));
  return std::nullopt;
}

// The message's text; nothing when content is null or absent.
std::optional<std::string> read_content(const FieldReader& message, Role role, Refusal& refusal) {
  const auto* content = message.field("content");
  if (content == nullptr && role == Role::assistant) return std::nullopt;
  if (const auto* parts = content == nullptr ? nullptr : content->if_array();
      parts != nullptr && parts->empty())
    message.problem("content", "must have at least one part");
  return read_text_or_parts(message, "content",
                            [&](const FieldReader& part) { return read_part(part, role, refusal); });
}

void read_tool_calls(const FieldReader& message, std::vector<prompt::ToolCall>& calls) {
  const auto* list = message.array("tool_calls");
  if (list == nullptr) return;
  if (list->size() > kMaxToolCalls) {
    return message.problem("tool_calls",
                           fmt::format("must have at most {} entries, not {}", kMaxToolCalls, list->size()));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = message.path_of("tool_calls", i);
    const auto* object = (*list)[i].if_object();
    if (object == nullptr) {
      message.problems().add(path, fmt::format("must be an object, not {}", kind_name((*list)[i])));
      continue;
    }
    const FieldReader call(*object, path, message.problems());
    prompt::ToolCall result;
    result.id = call.required_string("id").value_or("");
    const auto type = call.required_string("type");
    if (type && *type != "function") call.problem("type", "must be \"function\"");
    if (const auto* function = call.object("function")) {
      const FieldReader fields(*function, call.path_of("function"), message.problems());
      result.name = fields.required_string("name").value_or("");
      const auto arguments = fields.string("arguments").value_or("");
      result.arguments = arguments.empty() ? "{}" : arguments;
    } else if (call.field("function") == nullptr) {
      call.problem("function", "is required and must be an object");
    }
    calls.push_back(std::move(result));
  }
}

}  // namespace

void read_messages(const FieldReader& body, prompt::GenerateRequest& generate, Refusal& refusal) {
  const auto* list = body.array("messages");
  if (list == nullptr) {
    if (body.field("messages") == nullptr) body.problem("messages", "is required and must be an array");
    return;
  }
  if (list->empty()) return body.problem("messages", "must have at least one message");
  if (list->size() > kMaxMessages) {
    return body.problem("messages",
                        fmt::format("must have at most {} messages, not {}", kMaxMessages, list->size()));
  }

  CalledNames called;
  std::vector<Message>& messages = generate.messages;
  messages.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = body.path_of("messages", i);
    const auto* object = (*list)[i].if_object();
    if (object == nullptr) {
      body.problems().add(path, fmt::format("must be an object, not {}", kind_name((*list)[i])));
      continue;
    }
    const FieldReader fields(*object, path, body.problems());
    const auto role = read_role(fields);
    if (!role) continue;
    Message message;
    message.role = *role;
    if (auto text = read_content(fields, *role, refusal))
      message.content.push_back(text_part(std::move(*text)));
    if (*role == Role::assistant) {
      read_tool_calls(fields, message.tool_calls);
      called.add(message.tool_calls);
      message.reasoning = fields.string("reasoning_content").value_or("");
    }
    if (*role == Role::tool) {
      message.tool_call_id = fields.required_string("tool_call_id").value_or("");
      message.name = fields.string("name").value_or("");
      if (message.name.empty()) message.name = called.find(message.tool_call_id);
    }
    messages.push_back(std::move(message));
  }
  if (!body.problems().empty()) return;
  settle_messages(messages, "messages", refusal);
}

}  // namespace gezel::api
