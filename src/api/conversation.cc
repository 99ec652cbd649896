#include "api/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>

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
    joined.content.push_back(text_part(std::move(text)));
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

void check_prompt(const std::vector<Message>& messages, std::string_view field, Refusal& refusal) {
  const auto refuse = [&](std::string_view why) {
    refusal.set(invalid_request("empty_prompt", fmt::format("{}: nothing to answer, {}", field, why),
                                std::string(field)));
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

bool is_system(Role role) {
  return role == Role::system || role == Role::developer;
}

std::optional<Role> role_named(std::string_view name) {
  const auto* known = std::ranges::find(kRoles, name, &RoleName::name);
  return known == kRoles.end() ? std::nullopt : std::optional(known->role);
}

std::optional<std::string> read_text_or_parts(const FieldReader& item, std::string_view field,
                                              const ReadPart& read_part) {
  const auto* value = item.field(field);
  if (value == nullptr) {
    item.problem(field, "is required: a string or an array of parts");
    return std::nullopt;
  }
  if (const auto* text = value->if_string()) return std::string(*text);
  const auto* parts = value->if_array();
  if (parts == nullptr) {
    item.problem(field, fmt::format("must be a string or an array of parts, not {}", kind_name(*value)));
    return std::nullopt;
  }
  if (parts->size() > kMaxContentParts) {
    item.problem(field, fmt::format("must have at most {} parts, not {}", kMaxContentParts, parts->size()));
    return std::nullopt;
  }
  std::string joined;
  bool first = true;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string path = item.path_of(field, i);
    const auto* object = (*parts)[i].if_object();
    if (object == nullptr) {
      item.problems().add(path, fmt::format("must be an object, not {}", kind_name((*parts)[i])));
      continue;
    }
    const auto text = read_part(FieldReader(*object, path, item.problems()));
    if (!text) continue;
    if (!first) joined += '\n';
    joined += *text;
    first = false;
  }
  return joined;
}

ContentPart text_part(std::string text) {
  return {ContentPart::Kind::text, std::move(text)};
}

void CalledNames::add(const std::vector<prompt::ToolCall>& calls) {
  // Backwards, so that of equal ids in one message the first counts.
  for (const auto& call : std::views::reverse(calls)) names_.insert_or_assign(call.id, call.name);
}

std::string CalledNames::find(std::string_view id) const {
  const auto found = names_.find(id);
  return found == names_.end() ? std::string() : found->second;
}

void settle_messages(std::vector<Message>& messages, std::string_view field, Refusal& refusal) {
  join_system_texts(messages);
  drop_old_reasoning(messages);
  check_prompt(messages, field, refusal);
}

}  // namespace gezel::api
