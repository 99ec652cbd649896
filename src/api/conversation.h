// api/conversation.h
//
// What becomes of a conversation whatever API it came by (spec 10 section 6.2).
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_parts.h"
#include "prompt/request.h"

namespace gezel::api {

bool is_system(prompt::Role role);  // or developer
std::optional<prompt::Role> role_named(std::string_view name);
prompt::ContentPart text_part(std::string text);

// A field that is a text, or an array of parts whose texts are joined by line ends: `read_part` gives a
// part's text, or nothing where it has none. Nothing: the field, which must be there, is neither.
using ReadPart = std::function<std::optional<std::string_view>(const FieldReader& part)>;
std::optional<std::string> read_text_or_parts(const FieldReader& item, std::string_view field,
                                              const ReadPart& read_part);

// Whose results tool messages are: the name of the function that the nearest earlier call with an id named.
class CalledNames {
 public:
  void add(const std::vector<prompt::ToolCall>& calls);
  std::string find(std::string_view id) const;  // "": nobody called with that id

 private:
  std::map<std::string, std::string, std::less<>> names_;
};

// Brings messages into the order that engines are asked in: all system and developer texts become one message
// at the front, since templates know one place for them, and a prefix that never moves is a prefix whose KV
// cache is found again; reasoning that is not of the running tool loop is left out. Refuses what leaves
// nothing to answer, as a fault of `field`.
void settle_messages(std::vector<prompt::Message>& messages, std::string_view field, Refusal& refusal);

}  // namespace gezel::api
