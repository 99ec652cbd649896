// Normalisation is a sequence of small passes over the messages. Their order matters in three places: tool
// results are linked to calls while ids are still the caller's; texts are joined before anything is prepended
// to them; and system text is moved last, when it is known which message is the first of the user.
#include "prompt/normalise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace gezel::prompt {
namespace {

constexpr std::string_view kEmptyResult = "(empty)";

bool is_image(const ContentPart& part) {
  return part.kind == ContentPart::Kind::image;
}

Message user_message() {
  return {};
}

void set_text(Message& message, std::string text) {
  message.content = {{ContentPart::Kind::text, std::move(text)}};
}

// Adds text before or after a message's own, with a blank line between; images stay where they are.
void prepend_text(Message& message, const std::string& text) {
  if (!message.content.empty() && !is_image(message.content.front())) {
    std::string& own = message.content.front().text;
    own = own.empty() ? text : text + "\n\n" + own;
  } else {
    message.content.insert(message.content.begin(), {ContentPart::Kind::text, text});
  }
}

void append_text(Message& message, const std::string& text) {
  if (!message.content.empty() && !is_image(message.content.back())) {
    std::string& own = message.content.back().text;
    own += own.empty() ? text : "\n\n" + text;
  } else {
    message.content.push_back({ContentPart::Kind::text, text});
  }
}

void append_content(Message& message, Message&& other) {
  for (ContentPart& part : other.content) {
    if (is_image(part)) {
      message.content.push_back(std::move(part));
    } else {
      append_text(message, part.text);
    }
  }
}

void rename_developer(std::vector<Message>& messages) {
  for (Message& message : messages) {
    if (message.role == Role::developer) message.role = Role::system;
  }
}

void drop_empty_assistants(std::vector<Message>& messages) {
  std::erase_if(messages, [](const Message& message) {
    return message.role == Role::assistant && message.content.empty() && message.tool_calls.empty() &&
           message.reasoning.empty();
  });
}

// Every tool result must answer a call of the nearest earlier assistant message; what does not becomes user
// text. A result without an id answers the first call that has no result yet.
void link_tool_results(std::vector<Message>& messages) {
  const Message* caller = nullptr;
  std::vector<bool> answered;
  for (Message& message : messages) {
    if (message.role == Role::assistant) {
      caller = &message;
      answered.assign(message.tool_calls.size(), false);
      continue;
    }
    if (message.role != Role::tool) continue;
    std::size_t call = answered.size();
    for (std::size_t i = 0; caller != nullptr && i < answered.size() && call == answered.size(); ++i) {
      const bool matches =
          message.tool_call_id.empty() ? !answered[i] : caller->tool_calls[i].id == message.tool_call_id;
      if (matches) call = i;
    }
    if (call < answered.size()) {
      answered[call] = true;
      message.tool_call_id = caller->tool_calls[call].id;
      if (message.name.empty()) message.name = caller->tool_calls[call].name;
    } else {
      std::string text = tool_result_text(message.name, message.tool_call_id, text_of(message));
      message = user_message();
      set_text(message, std::move(text));
    }
  }
}

Result<> join_parts(Message& message, std::size_t index, bool vision) {
  const bool images = std::ranges::any_of(message.content, is_image);
  if (images && vision) return {};
  const bool texts =
      std::ranges::any_of(message.content, [](const ContentPart& part) { return !is_image(part); });
  if (images && !texts) {
    return fail(ErrorKind::invalid, "unsupported_content",
                fmt::format("messages[{}] holds nothing but images, and this model has no vision projector. "
                            "Send text, or ask a model that can see.",
                            index),
                fmt::format("messages[{}].content", index));
  }
  if (!message.content.empty()) set_text(message, text_of(message));
  return {};
}

void trim(std::string& text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return text.clear();
  text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

void shape_contents(std::vector<Message>& messages, const TemplateTraits& traits) {
  for (Message& message : messages) {
    if (traits.trim_content) {
      for (ContentPart& part : message.content) {
        if (!is_image(part)) trim(part.text);
      }
    }
    if (message.role == Role::tool && text_of(message).empty() &&
        std::ranges::none_of(message.content, is_image)) {
      set_text(message, std::string(kEmptyResult));
    }
    if (message.role == Role::assistant && !message.tool_calls.empty()) {
      if (message.content.empty() || traits.drop_content_of_calls) set_text(message, "");
    }
    if (traits.reasoning == ReasoningReplay::dropped) message.reasoning.clear();
    if (traits.short_call_ids) {
      for (ToolCall& call : message.tool_calls) call.id = short_call_id(call.id);
      if (!message.tool_call_id.empty()) message.tool_call_id = short_call_id(message.tool_call_id);
    }
  }
}

void sort_tool_results(std::vector<Message>& messages) {
  for (auto caller = messages.begin(); caller != messages.end(); ++caller) {
    const auto first = std::next(caller);
    const auto last =
        std::find_if(first, messages.end(), [](const Message& m) { return m.role != Role::tool; });
    auto place = [&](const Message& result) {
      return std::ranges::find(caller->tool_calls, result.tool_call_id, &ToolCall::id) -
             caller->tool_calls.begin();
    };
    // Insertion sort: stable, in place, and there are seldom more than a handful.
    for (auto next = first; next != last; ++next) {
      const auto before =
          std::find_if(first, next, [&](const Message& earlier) { return place(*next) < place(earlier); });
      std::rotate(before, next, std::next(next));
    }
    caller = std::prev(last);
  }
}

void tell_calls(Message& message) {
  for (const ToolCall& call : message.tool_calls)
    append_text(message, fmt::format("Called the tool {} ({}).", call.name, call.id));
  message.tool_calls.clear();
}

void move_system_text_to_user(std::vector<Message>& messages) {
  std::string system;
  for (const Message& message : messages) {
    if (message.role != Role::system) continue;
    const std::string text = text_of(message);
    if (!text.empty()) system += system.empty() ? text : "\n\n" + text;
  }
  std::erase_if(messages, [](const Message& message) { return message.role == Role::system; });
  if (system.empty()) return;
  auto user = std::ranges::find(messages, Role::user, &Message::role);
  if (user == messages.end()) user = messages.insert(messages.begin(), user_message());
  prepend_text(*user, system);
}

}  // namespace

std::string text_of(const Message& message) {
  std::string text;
  bool first = true;
  for (const ContentPart& part : message.content) {
    if (is_image(part)) continue;
    if (!std::exchange(first, false)) text += '\n';
    text += part.text;
  }
  return text;
}

std::string tool_result_text(std::string_view name, std::string_view id, std::string_view text) {
  return fmt::format("Tool result for {} ({}):\n{}", name.empty() ? "a tool" : name, id,
                     text.empty() ? kEmptyResult : text);
}

std::string short_call_id(std::string_view id) {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kLength = 9;
  if (id.size() == kLength && id.find_first_not_of(kAlphabet) == std::string_view::npos)
    return std::string(id);
  std::uint64_t hash =
      14695981039346656037ULL;  // FNV-1a: stable across runs and machines, as the prompt's bytes must be
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  std::string out;
  for (std::size_t i = 0; i < kLength; ++i, hash /= kAlphabet.size())
    out += kAlphabet[hash % kAlphabet.size()];
  return out;
}

Result<std::vector<Message>> normalise(std::vector<Message> messages, const TemplateTraits& traits) {
  if (!traits.developer_role) rename_developer(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) GEZEL_CHECK(join_parts(messages[i], i, traits.vision));
  drop_empty_assistants(messages);
  link_tool_results(messages);
  if (traits.sort_tool_results) sort_tool_results(messages);
  shape_contents(messages, traits);
  // A message that had reasoning only, in front of a template that does not ask for it, has nothing left.
  drop_empty_assistants(messages);
  if (!traits.tool_results && !traits.fold_tool_results) flatten_tool_transcript(messages);
  if (!traits.calls) std::ranges::for_each(messages, tell_calls);
  if (!traits.system_role) move_system_text_to_user(messages);
  return messages;
}

void flatten_tool_transcript(std::vector<Message>& messages) {
  std::vector<Message> flat;
  flat.reserve(messages.size());
  for (Message& message : messages) {
    if (message.role == Role::tool) {
      std::string text = tool_result_text(message.name, message.tool_call_id, text_of(message));
      message = user_message();
      set_text(message, std::move(text));
    }
    tell_calls(message);
    if (!flat.empty() && flat.back().role == message.role && message.role != Role::system) {
      Message& last = flat.back();
      last.sampled.reset();  // it is no longer the message that was sampled
      if (!message.reasoning.empty()) {
        last.reasoning += last.reasoning.empty() ? message.reasoning : "\n\n" + message.reasoning;
      }
      append_content(last, std::move(message));
    } else {
      flat.push_back(std::move(message));
    }
  }
  messages = std::move(flat);
}

void merge_system_messages(std::vector<Message>& messages) {
  Message system;
  system.role = Role::system;
  for (Message& message : messages) {
    if (message.role == Role::system) append_content(system, std::move(message));
  }
  if (std::erase_if(messages, [](const Message& message) { return message.role == Role::system; }) > 0) {
    messages.insert(messages.begin(), std::move(system));
  }
}

}  // namespace gezel::prompt
