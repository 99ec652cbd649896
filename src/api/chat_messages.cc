// Messages as a client sends them become what an engine is asked (spec 10 section 6.2). All system and
// developer texts are joined into one message at the front: templates know one place for them, and a prefix
// that never moves is a prefix whose KV cache is found again.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <map>
#include <ranges>

#include "api/chat_parts.h"

namespace gezel::api {
namespace {

using prompt::ContentPart;
using prompt::Message;
using prompt::Role;

struct RoleName {
  std::string_view name;
  Role role;
};
constexpr std::array kRoles{
    RoleName{"system", Role::system}, RoleName{"developer", Role::developer},
    RoleName{"user", Role::user},     RoleName{"assistant", Role::assistant},
    RoleName{"tool", Role::tool},
};

bool is_system(Role role) {
  return role == Role::system || role == Role::developer;
}

std::optional<Role> read_role(const FieldReader& message) {
  const auto name = message.required_string("role");
  if (!name) return std::nullopt;
  for (const auto& known : kRoles) {
    if (known.name == *name) return known.role;
  }
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

// The message's text, its parts joined by line ends; nothing when content is null or absent.
std::optional<std::string> read_content(const FieldReader& message, Role role, Refusal& refusal) {
  const auto* content = message.field("content");
  if (content == nullptr) {
    if (role != Role::assistant) message.problem("content", "is required: a string or an array of parts");
    return std::nullopt;
  }
  if (const auto* text = content->if_string()) return std::string(*text);
  const auto* parts = content->if_array();
  if (parts == nullptr) {
    message.problem("content",
                    fmt::format("must be a string or an array of parts, not {}", kind_name(*content)));
    return std::nullopt;
  }
  if (parts->empty()) message.problem("content", "must have at least one part");
  if (parts->size() > kMaxContentParts) {
    message.problem("content",
                    fmt::format("must have at most {} parts, not {}", kMaxContentParts, parts->size()));
    return std::nullopt;
  }
  std::string joined;
  bool first = true;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string path = message.path_of("content", i);
    const auto* object = (*parts)[i].if_object();
    if (object == nullptr) {
      message.problems().add(path, fmt::format("must be an object, not {}", kind_name((*parts)[i])));
      continue;
    }
    const auto text = read_part(FieldReader(*object, path, message.problems()), role, refusal);
    if (!text) continue;
    if (!first) joined += '\n';
    joined += *text;
    first = false;
  }
  return joined;
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

void set_text(Message& message, std::optional<std::string> text) {
  if (text) message.content.push_back({ContentPart::Kind::text, std::move(*text)});
}

// Whose results tool messages are: the name of the function that the nearest earlier call with an id named.
class CalledNames {
 public:
  void add(const std::vector<prompt::ToolCall>& calls) {
    // Backwards, so that of equal ids in one message the first counts.
    for (const auto& call : std::views::reverse(calls)) names_.insert_or_assign(call.id, call.name);
  }
  std::string find(std::string_view id) const {
    const auto found = names_.find(id);
    return found == names_.end() ? std::string() : found->second;
  }

 private:
  std::map<std::string, std::string, std::less<>> names_;
};

bool is_blank(const Message& message) {
  for (const auto& part : message.content) {
    if (part.kind != ContentPart::Kind::text) return false;
    if (part.text.find_first_not_of(" \t\r\n\f\v") != std::string::npos) return false;
  }
  return true;
}

// All system texts become one message at the front. It is a developer message only when every one of them
// was: some templates tell the two apart.
void join_system_texts(std::vector<Message>& messages) {
  Message joined;
  joined.role = Role::developer;
  std::string text;
  bool any = false;
  std::vector<Message> rest;
  for (Message& message : messages) {
    if (!is_system(message.role)) {
      rest.push_back(std::move(message));
      continue;
    }
    if (message.role == Role::system) joined.role = Role::system;
    any = true;
    for (const auto& part : message.content) {
      if (part.text.empty()) continue;
      if (!text.empty()) text += "\n\n";
      text += part.text;
    }
  }
  // An empty system text that was sent stays: it keeps templates from inventing their own.
  if (any) {
    set_text(joined, std::move(text));
    rest.insert(rest.begin(), std::move(joined));
  }
  messages = std::move(rest);
}

// Past reasoning belongs to the tool loop that is still running, which begins at the last user message.
void drop_old_reasoning(std::vector<Message>& messages) {
  bool before_last_user = false;
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (before_last_user) message->reasoning.clear();
    if (message->role == Role::user) before_last_user = true;
  }
}

void check_prompt(const std::vector<Message>& messages, Refusal& refusal) {
  const auto refuse = [&](std::string_view why) {
    refusal.set(
        invalid_request("empty_prompt", fmt::format("messages: nothing to answer, {}", why), "messages"));
  };
  if (messages.empty() || is_system(messages.back().role)) {
    return refuse("there are only system messages; add a user message");
  }
  const Message& last = messages.back();
  if (last.role == Role::assistant)
    return refuse("the last message is the assistant's; end with a user or tool message");
  if (last.role == Role::user && is_blank(last))
    return refuse("the last user message is blank; write some text");
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
    set_text(message, read_content(fields, *role, refusal));
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
  join_system_texts(messages);
  drop_old_reasoning(messages);
  check_prompt(messages, refusal);
}

}  // namespace gezel::api
