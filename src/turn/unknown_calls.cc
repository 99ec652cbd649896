#include "turn/unknown_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace gezel::turn {
namespace {

constexpr std::size_t kShownNameBytes = 80;  // a model may write anything where a name stands

std::vector<std::string> names_of(std::span<const ToolSchema> tools) {
  std::vector<std::string> names;
  for (const ToolSchema& tool : tools) names.push_back(tool.name);
  return names;
}

// The front of UTF-8 text, at most `limit` characters.
std::string_view front_chars(std::string_view text, std::size_t limit) {
  std::size_t chars = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
    if (begins && ++chars > limit) return text.substr(0, at);
  }
  return text;
}

std::string shown(std::string_view name) {
  const std::string_view front = front_chars(name, kShownNameBytes);
  return fmt::format("`{}`{}", front, front.size() < name.size() ? "…" : "");
}

const ToolSchema* tool_with_parameter(std::span<const ToolSchema> tools, std::string_view name) {
  const auto found = std::ranges::find_if(tools, [&](const ToolSchema& tool) {
    return std::ranges::any_of(tool.properties, [&](const Property& p) { return p.name == name; });
  });
  return found == tools.end() ? nullptr : &*found;
}

std::string about_unknown(std::string_view name, const ToolNames& names, std::span<const ToolSchema> tools) {
  std::string text = fmt::format("There is no tool {}.", shown(name));
  if (const auto* tool = tool_with_parameter(tools, name))
    text += fmt::format(" {} is a parameter of {}, not a tool.", shown(name), tool->name);
  if (const auto near = names.suggest(name)) {
    text += fmt::format(" Did you mean {}?", names.names()[*near]);
  } else if (!names.names().empty()) {
    text += fmt::format(" The tools are: {}.", list_names(names.names()));
  }
  return text;
}

std::string about_malformed(std::string_view name) {
  const std::string which = name.empty() ? "A call" : "The call of " + shown(name);
  return which +
         " could not be read: its form or its JSON is broken. Write it once more, as one complete call.";
}

// What makes two rounds the same.
std::string key_of(std::span<const Unparsed> calls) {
  std::string key;
  for (const Unparsed& call : calls)
    key += fmt::format("{}:{}{}:{}", call.name.size(), call.name, call.text.size(), call.text);
  return key;
}

}  // namespace

std::string unknown_feedback(std::span<const Unparsed> calls, std::span<const ToolSchema> tools) {
  const ToolNames names(names_of(tools));
  std::vector<std::string> parts;
  for (const Unparsed& call : calls) {
    const bool unknown = !call.name.empty() && !names.resolve(call.name);
    std::string part = unknown ? about_unknown(call.name, names, tools) : about_malformed(call.name);
    // A name that was used twice is explained once.
    if (std::ranges::find(parts, part) == parts.end()) parts.push_back(std::move(part));
  }
  std::string text = "ERROR: nothing was called.";
  for (const std::string& part : parts) text += " " + part;
  return text;
}

CorrectiveRounds::Answer CorrectiveRounds::next(std::span<const Unparsed> calls,
                                                std::span<const ToolSchema> tools) {
  std::string key = key_of(calls);
  Answer answer;
  answer.again = used_ < kCorrectiveRounds && key != last_;
  last_ = std::move(key);
  if (answer.again) {
    ++used_;
    answer.feedback = unknown_feedback(calls, tools);
    return answer;
  }
  answer.warning =
      "the model called tools that do not exist or wrote calls that cannot be read; none of them ran";
  answer.note = "No tool ran in the last turn. These calls could not be run:";
  for (const Unparsed& call : calls) {
    const std::string_view body = front_chars(call.text, kFailedBodyChars);
    answer.note += fmt::format("\n{}{}", body, body.size() < call.text.size() ? "…" : "");
  }
  return answer;
}

}  // namespace gezel::turn
