#include <fmt/format.h>

#include <set>

#include "api/chat_parts.h"

namespace gezel::api {
namespace {

constexpr std::size_t kMaxToolName = 64;

bool is_tool_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxToolName) return false;
  return name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") ==
         std::string_view::npos;
}

// {} and anything whose `type` is or includes "object".
bool is_object_schema(const json::object& schema) {
  const auto* type = schema.if_contains("type");
  if (type == nullptr) return true;
  if (const auto* word = type->if_string()) return *word == "object";
  if (const auto* words = type->if_array()) {
    for (const auto& word : *words) {
      if (word.is_string() && word.get_string() == "object") return true;
    }
  }
  return false;
}

// The caller's own JSON with its key order, because it becomes part of the prompt; only the documented
// default of `parameters` is filled in, which templates rely on.
std::string tool_json(const json::object& tool, bool has_parameters) {
  if (has_parameters) return to_json(tool);
  json::object copy = tool;
  copy.at("function").as_object()["parameters"] = {{"type", "object"}, {"properties", json::object()}};
  return to_json(copy);
}

void read_tool(const FieldReader& tool, const json::object& object, std::set<std::string, std::less<>>& names,
               std::vector<prompt::Tool>& tools, Refusal& refusal) {
  const auto type = tool.required_string("type");
  if (type && *type != "function") tool.problem("type", "must be \"function\"");
  const auto* function = tool.object("function");
  if (function == nullptr) {
    if (tool.field("function") == nullptr) tool.problem("function", "is required and must be an object");
    return;
  }
  const FieldReader fields(*function, tool.path_of("function"), tool.problems());
  const auto refuse = [&](std::string_view key, std::string_view why) {
    refusal.set(invalid_request("invalid_tool_schema", fmt::format("{}: {}", fields.path_of(key), why),
                                fields.path_of(key)));
  };
  fields.string("description");
  fields.boolean("strict");
  const auto* parameters = fields.field("parameters");
  if (parameters != nullptr && (!parameters->is_object() || !is_object_schema(parameters->get_object()))) {
    refuse("parameters", "must be a JSON Schema of type \"object\"");
  }
  if (fields.field("name") == nullptr) return fields.problem("name", "is required and must be a string");
  const auto name = fields.string("name");
  if (!name) return;
  if (!is_tool_name(*name)) return refuse("name", "must be 1 to 64 characters of A-Z a-z 0-9 _ . -");
  if (!names.emplace(*name).second)
    return refuse("name", fmt::format("\"{}\" is already the name of another tool", *name));
  tools.push_back({std::string(*name), tool_json(object, parameters != nullptr)});
}

ApiError no_tools(std::string_view choice) {
  return invalid_request("invalid_tool_choice",
                         fmt::format("tool_choice: {} needs at least one entry in `tools`", choice),
                         "tool_choice");
}

void read_named_choice(const FieldReader& body, const json::object& choice,
                       const std::set<std::string, std::less<>>& names, prompt::GenerateRequest& generate,
                       Refusal& refusal) {
  const FieldReader fields(choice, "tool_choice", body.problems());
  const auto type = fields.required_string("type");
  if (type && *type != "function") fields.problem("type", "must be \"function\"");
  const auto* function = fields.object("function");
  if (function == nullptr) {
    if (fields.field("function") == nullptr) fields.problem("function", "is required and must be an object");
    return;
  }
  const auto name = FieldReader(*function, "tool_choice.function", body.problems()).required_string("name");
  if (!name) return;
  if (names.empty()) return refusal.set(no_tools("a named function"));
  if (!names.contains(*name)) {
    return refusal.set(invalid_request(
        "invalid_tool_choice",
        fmt::format("tool_choice.function.name: \"{}\" is not one of the tools sent", excerpt(*name)),
        "tool_choice.function.name"));
  }
  generate.tool_choice = prompt::ToolChoice::named;
  generate.tool_name = *name;
}

void read_tool_choice(const FieldReader& body, const std::set<std::string, std::less<>>& names,
                      prompt::GenerateRequest& generate, Refusal& refusal) {
  const auto* value = body.field("tool_choice");
  if (value == nullptr) return;
  if (const auto* object = value->if_object())
    return read_named_choice(body, *object, names, generate, refusal);
  const auto* word = value->if_string();
  if (word == nullptr) {
    return body.problem("tool_choice",
                        fmt::format("must be a string or an object, not {}", kind_name(*value)));
  }
  if (*word == "auto") return;
  if (*word == "none") {
    generate.tool_choice = prompt::ToolChoice::none;
    return;
  }
  if (*word != "required") {
    return body.problem(
        "tool_choice",
        "must be \"auto\", \"none\", \"required\" or {\"type\":\"function\",\"function\":{\"name\":...}}");
  }
  if (names.empty()) return refusal.set(no_tools("\"required\""));
  generate.tool_choice = prompt::ToolChoice::required;
}

void read_tool_policy(const FieldReader& body, prompt::GenerateRequest& generate) {
  const auto word = body.string("tool_policy");
  if (!word) return;
  if (*word == "repair") {
    generate.tool_policy = prompt::ToolPolicy::repair;
  } else if (*word == "strict") {
    generate.tool_policy = prompt::ToolPolicy::strict;
  } else if (*word == "raw") {
    generate.tool_policy = prompt::ToolPolicy::raw;
  } else {
    body.problem("tool_policy", "must be \"repair\", \"strict\" or \"raw\"");
  }
}

}  // namespace

void read_tools(const FieldReader& body, prompt::GenerateRequest& generate, Refusal& refusal) {
  std::set<std::string, std::less<>> names;
  if (const auto* list = body.array("tools")) {
    if (list->size() > kMaxTools) {
      body.problem("tools", fmt::format("must have at most {} entries, not {}", kMaxTools, list->size()));
    } else {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const std::string path = body.path_of("tools", i);
        if (const auto* object = (*list)[i].if_object()) {
          read_tool(FieldReader(*object, path, body.problems()), *object, names, generate.tools, refusal);
        } else {
          body.problems().add(path, fmt::format("must be an object, not {}", kind_name((*list)[i])));
        }
      }
    }
  }
  read_tool_choice(body, names, generate, refusal);
  read_tool_policy(body, generate);
  const bool must_call = generate.tool_choice == prompt::ToolChoice::required ||
                         generate.tool_choice == prompt::ToolChoice::named;
  if (must_call && generate.tool_policy == prompt::ToolPolicy::raw) {
    refusal.set(invalid_request("invalid_tool_choice",
                                "tool_choice: a call cannot be required where tool_policy \"raw\" reads none",
                                "tool_choice"));
  }
}

}  // namespace gezel::api
