// The items of a conversation in the Responses API become messages (spec 10 section 7.3): an item of a call
// joins the assistant message in front of it, an item of an output is a tool message.
#include <fmt/format.h>

#include "api/conversation.h"
#include "api/responses_parts.h"

namespace gezel::api {
namespace {

using prompt::Message;
using prompt::Role;

class Items {
 public:
  Items(const FieldReader& body, std::vector<Message>& messages, Refusal& refusal)
      : body_(body), messages_(messages), refusal_(refusal) {}

  void read(const json::array& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string path = body_.path_of("input", i);
      if (const auto* object = list[i].if_object()) {
        read_item(FieldReader(*object, path, body_.problems()));
      } else {
        body_.problems().add(path, fmt::format("must be an object, not {}", kind_name(list[i])));
      }
    }
  }

 private:
  void read_item(const FieldReader& item) {
    const auto type = item.string("type").value_or("message");
    if (type == "message") return read_message(item);
    if (type == "function_call" || type == "custom_tool_call")
      return read_call(item, type == "custom_tool_call");
    if (type == "function_call_output" || type == "custom_tool_call_output") return read_output(item);
    if (type == "reasoning") return read_reasoning(item);
    if (type == "item_reference") {
      return refusal_.set(invalid_request(
          "stored_state_not_supported",
          fmt::format("{}: this service keeps no items; send the item itself", item.path()), item.path()));
    }
    item.problem("type", fmt::format("\"{}\" is not an item that can be sent", excerpt(type)));
  }

  void read_message(const FieldReader& item) {
    const auto name = item.required_string("role");
    if (!name) return;
    const auto role = role_named(*name);
    if (!role || *role == Role::tool)
      return item.problem("role", "must be \"system\", \"developer\", \"user\" or \"assistant\"");
    Message message;
    message.role = *role;
    if (auto text = read_text(item, "content")) message.content.push_back(text_part(std::move(*text)));
    if (message.role == Role::assistant) take_reasoning(message);
    messages_.push_back(std::move(message));
  }

  void read_call(const FieldReader& item, bool custom) {
    prompt::ToolCall call;
    call.id = item.required_string("call_id").value_or("");
    call.name =
        local_tool_name(item.string("namespace").value_or(""), item.required_string("name").value_or(""));
    if (custom) {
      call.arguments = wrap_custom_input(item.string("input").value_or(""));
    } else {
      const auto arguments = item.string("arguments").value_or("");
      call.arguments = arguments.empty() ? "{}" : arguments;
    }
    // Reasoning in between belongs to a new step.
    if (messages_.empty() || messages_.back().role != Role::assistant || !reasoning_.empty()) {
      Message message;
      message.role = Role::assistant;
      take_reasoning(message);
      messages_.push_back(std::move(message));
    }
    auto& calls = messages_.back().tool_calls;
    if (calls.size() == kMaxToolCalls)
      return item.problem("type", fmt::format("is one call too many; a message may have {}", kMaxToolCalls));
    calls.push_back(std::move(call));
    called_.add({calls.back()});
  }

  void read_output(const FieldReader& item) {
    Message message;
    message.role = Role::tool;
    message.tool_call_id = item.required_string("call_id").value_or("");
    message.name = called_.find(message.tool_call_id);
    if (message.name.empty()) message.name = item.string("name").value_or("");
    if (auto text = read_text(item, "output")) message.content.push_back(text_part(std::move(*text)));
    messages_.push_back(std::move(message));
  }

  // Items that cannot be read are passed over: clients replay what they got from whoever answered before.
  void read_reasoning(const FieldReader& item) {
    const auto* content = item.array("content");
    if (content == nullptr) return;
    for (const auto& part : *content) {
      const auto* object = part.if_object();
      if (object != nullptr) reasoning_ += string_or(*object, "text");
    }
  }

  void take_reasoning(Message& message) { message.reasoning = std::exchange(reasoning_, {}); }

  std::optional<std::string> read_text(const FieldReader& item, std::string_view field) {
    return read_text_or_parts(item, field, [this](const FieldReader& part) { return read_part(part); });
  }

  std::optional<std::string_view> read_part(const FieldReader& part) {
    const auto type = part.required_string("type");
    if (!type) return std::nullopt;
    const bool refused = *type == "refusal";
    if (refused || *type == "input_text" || *type == "output_text" || *type == "text") {
      const std::string_view member = refused ? "refusal" : "text";
      const auto text = part.string(member);
      if (part.field(member) == nullptr) part.problem(member, "is required and must be a string");
      return text;
    }
    refusal_.set(invalid_request("unsupported_content",
                                 fmt::format("{}: parts of type \"{}\" are not supported; send text parts",
                                             part.path(), excerpt(*type)),
                                 part.path()));
    return std::nullopt;
  }

  const FieldReader& body_;
  std::vector<Message>& messages_;
  Refusal& refusal_;
  CalledNames called_;
  std::string reasoning_;  // of items in front of the message that it belongs to
};

}  // namespace

void read_responses_input(const FieldReader& body, ResponsesRequest& request, Refusal& refusal) {
  std::vector<Message>& messages = request.chat.generate.messages;
  const auto instructions = body.string("instructions");
  if (instructions && !instructions->empty())
    messages.push_back({.role = Role::system, .content = {text_part(std::string(*instructions))}});
  const auto* value = body.field("input");
  if (value == nullptr) return body.problem("input", "is required: a string or an array of items");
  if (const auto* text = value->if_string()) {
    if (text->empty()) return body.problem("input", "must not be empty");
    messages.push_back({.role = Role::user, .content = {text_part(std::string(*text))}});
  } else if (const auto* list = value->if_array()) {
    if (list->empty()) return body.problem("input", "must have at least one item");
    if (list->size() > kMaxInputItems) {
      return body.problem("input",
                          fmt::format("must have at most {} items, not {}", kMaxInputItems, list->size()));
    }
    Items(body, messages, refusal).read(*list);
  } else {
    return body.problem("input",
                        fmt::format("must be a string or an array of items, not {}", kind_name(*value)));
  }
  if (body.problems().empty()) settle_messages(messages, "input", refusal);
}

}  // namespace gezel::api
