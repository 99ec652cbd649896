#include "worker/tool_block.h"

#include <string>

namespace gezel::worker {
namespace {

std::string block(const prompt::GenerateRequest& request) {
  std::string out = "You can call these functions. Each line describes one as JSON:\n<tools>\n";
  for (const auto& tool : request.tools) {
    if (request.tool_choice == prompt::ToolChoice::named && tool.name != request.tool_name) continue;
    out += tool.json + "\n";
  }
  out +=
      "</tools>\n"
      "To call a function, write its name and its arguments as one JSON object between these marks, and nothing "
      "after it:\n"
      "<tool_call>\n{\"name\": \"the function\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>\n"
      "Answer in plain words when no function helps.";
  return out;
}

}  // namespace

void describe_tools_in_system_text(prompt::GenerateRequest& request) {
  const prompt::ContentPart part{prompt::ContentPart::Kind::text, block(request)};
  const bool has_system = !request.messages.empty() && (request.messages.front().role == prompt::Role::system ||
                                                        request.messages.front().role == prompt::Role::developer);
  if (has_system) {
    auto& content = request.messages.front().content;
    if (content.empty()) {
      content.push_back(part);
    } else {
      content.front().text += "\n\n" + part.text;
    }
  } else {
    request.messages.insert(request.messages.begin(), {.role = prompt::Role::system, .content = {part}});
  }
  request.tools.clear();
}

}  // namespace gezel::worker
