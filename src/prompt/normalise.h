// prompt/normalise.h
//
// What a chat template is given: messages in the shape that this template can take. Pure functions over
// messages, from spec 50 sections 2.2 (normalisation) and 2.3 (strict templates). What a template can take is
// in TemplateTraits; `template` finds it out by probing.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "prompt/request.h"

namespace gezel::prompt {

// How past reasoning of the assistant is handed over.
enum class ReasoningReplay {
  dropped,            // the template does not ask for it
  reasoning_content,  // field `reasoning_content` of the message
  thinking,           // field `thinking` of the message (harmony and others)
  blocks,             // content part {"type": "thinking", "thinking": ...} before the text (Mistral)
};

struct TemplateTraits {
  bool vision = false;          // image parts stay typed
  bool system_role = true;      // false: system text goes into the first user message
  bool developer_role = false;  // true: `developer` keeps its name (harmony); otherwise it becomes `system`
  bool tool_results = true;  // false: a tool's result would be lost, so calls and results become plain text
  bool calls = true;         // false: calls would be lost, so they are told in the text of their message
  bool text_arguments = false;  // a call's arguments stay JSON text; otherwise they are an object
  bool typed_content = false;   // content is always a list of parts, also when it is text alone
  ReasoningReplay reasoning = ReasoningReplay::dropped;
  bool drop_content_of_calls = false;  // harmony: a message with calls has no content of its own
  bool short_call_ids = false;         // Mistral: ids are exactly nine letters and digits
  bool fold_tool_results = false;  // older Gemma 4: results are `tool_responses` of the assistant's message
  bool sort_tool_results = false;  // DeepSeek V4: results in the order of the calls they answer
  bool trim_content = false;       // Step: white space around contents is removed
};

// Section 2.2: roles, null contents, orphaned tool results, content parts, system text, call ids. Afterwards
// a message holds at most one text part, unless images are kept. Error `unsupported_content` when a message
// holds nothing but images that the model cannot see; param names the message.
Result<std::vector<Message>> normalise(std::vector<Message> messages, const TemplateTraits& traits);

// Section 2.3: calls and tool results become plain text, then neighbours of the same role (not system) become
// one message. No dialect marker is in that text, or the model would learn to imitate it.
void flatten_tool_transcript(std::vector<Message>& messages);

// Section 2.3: all system messages, joined by a blank line, at the front.
void merge_system_messages(std::vector<Message>& messages);

// "Tool result for NAME (ID):" and the text on the next line.
std::string tool_result_text(std::string_view name, std::string_view id, std::string_view text);

// Nine letters and digits for a call id, always the same ones for the same id; an id that has this form
// stays.
std::string short_call_id(std::string_view id);

// The text parts joined by a line end.
std::string text_of(const Message& message);

}  // namespace gezel::prompt
