#include "turn/required.h"

#include <algorithm>

#include <fmt/format.h>

namespace gezel::turn {
namespace {

constexpr std::size_t kMaxListedFields = 40;

// `a`, `b` and `c`, at most kMaxListedFields of them.
std::string quoted_list(const std::vector<std::string>& names) {
  std::string list;
  const std::size_t shown = std::min(names.size(), kMaxListedFields);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) list += i + 1 == names.size() ? " and " : ", ";
    list += '`' + names[i] + '`';
  }
  if (names.size() > shown) list += fmt::format(" and {} more", names.size() - shown);
  return list;
}

std::vector<std::string> missing_fields(const Call& call, const ToolSchema& tool) {
  std::vector<std::string> missing;
  for (const std::string& field : tool.required) {
    if (!call.arguments.contains(field)) missing.push_back(field);
  }
  return missing;
}

// Whether a missing field is an object of which the call gave members as arguments of their own.
bool is_flattened(const Call& call, const ToolSchema& tool, const std::vector<std::string>& missing) {
  for (const std::string& field : missing) {
    const SchemaPosition position = tool.position(field);
    if ((position.types & kObjectType) == 0) continue;
    for (const json::object* schema : position.schemas) {
      const auto* properties = object_at(*schema, "properties");
      if (properties == nullptr) continue;
      for (const auto& argument : call.arguments) {
        if (!tool.keys.exact(argument.key()) && properties->contains(argument.key())) return true;
      }
    }
  }
  return false;
}

std::string feedback_text(const Call& call, const ToolSchema& tool, const RejectedCall& rejected) {
  const bool one = rejected.missing.size() == 1;
  const std::string fields = quoted_list(rejected.missing);
  std::string text = fmt::format("ERROR: {} was not called: the required {} {} {} missing.", call.name,
                                 one ? "field" : "fields", fields, one ? "is" : "are");
  if (rejected.flattened) {
    return text + fmt::format(
                      " The values were right, but they belong inside {}. Call {} again with the "
                      "arguments as one JSON object that holds {} as an object.",
                      fields, call.name, fields);
  }
  if (rejected.feedback == MissingFeedback::decoder) {
    return text + fmt::format(
                      " The decoder left {} out, not you. Decoding is sequential now. Call {} once more "
                      "with all fields.",
                      one ? "it" : "them", call.name);
  }
  std::vector<std::string> declared;
  for (const Property& property : tool.properties) declared.push_back(property.name);
  for (const std::string& field : tool.required) {
    if (!tool.keys.exact(field)) declared.push_back(field);
  }
  return text + fmt::format(" Call {} again with all declared fields: {}.", call.name, quoted_list(declared));
}

// Whether the decoder broke the grammar's promise with this call, and the session does not know it yet.
bool is_new_violation(bool sequential, const Call& call, const GrammarRequest& grammar) {
  return !sequential && grammar.guarantees_required && call.provenance.constrained &&
         !prose_salvaged(call.provenance, grammar.spellings);
}

}  // namespace

RequiredCheck check_required(bool sequential, std::span<const Call> calls, std::span<const ToolSchema> tools,
                             const GrammarRequest& grammar) {
  RequiredCheck check;
  check.sequential = sequential;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const auto tool = std::ranges::find(tools, call.name, &ToolSchema::name);
    if (tool == tools.end()) continue;
    RejectedCall rejected;
    rejected.call = i;
    rejected.missing = missing_fields(call, *tool);
    if (rejected.missing.empty()) continue;
    if (is_new_violation(check.sequential, call, grammar)) {
      rejected.feedback = MissingFeedback::decoder;
      check.sequential = true;
    }
    rejected.flattened = is_flattened(call, *tool, rejected.missing);
    rejected.text = feedback_text(call, *tool, rejected);
    check.rejected.push_back(std::move(rejected));
  }
  return check;
}

bool latch_after_validator(bool sequential, const Call& call, const GrammarRequest& grammar) {
  return sequential || is_new_violation(sequential, call, grammar);
}

}  // namespace gezel::turn
