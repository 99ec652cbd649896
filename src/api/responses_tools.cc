// Tools of the Responses API become functions that a chat template can print: name spaces become a part of
// the name, and a custom tool, whose input is free text, a function with one string.
#include <fmt/format.h>

#include <algorithm>

#include "api/responses_parts.h"
#include "base/ids.h"

namespace gezel::api {
namespace {

using Kind = ResponsesTool::Kind;

constexpr std::size_t kMaxToolName = 128;
constexpr std::size_t kMaxNameSpace = 64;
constexpr std::size_t kMaxLocalName = 64;  // what chat templates and grammars are sure to take
constexpr std::size_t kKeptOfLongName = 50;
constexpr std::size_t kDigestDigits = 12;
constexpr std::string_view kNameRule = "must be 1 to 128 characters of A-Z a-z 0-9 _ -";

bool is_name(std::string_view name, std::size_t limit) {
  if (name.empty() || name.size() > limit) return false;
  return name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") ==
         std::string_view::npos;
}

// What stands around a tool: the name space that it is in, if it is in one.
struct Surroundings {
  std::string_view name_space;
  std::string_view description;
};

std::string joined(std::string_view first, std::string_view second) {
  if (first.empty() || second.empty()) return std::string(first.empty() ? second : first);
  return fmt::format("{}\n\n{}", first, second);
}

// What the model is told of how a custom tool's input must look.
std::string grammar_note(const FieldReader& tool) {
  const auto* object = tool.object("format");
  if (object == nullptr) return {};
  const FieldReader format(*object, tool.path_of("format"), tool.problems());
  const auto type = format.required_string("type");
  if (!type || *type == "text") return {};
  if (*type != "grammar") {
    format.problem("type", "must be \"text\" or \"grammar\"");
    return {};
  }
  const auto syntax = format.required_string("syntax");
  const auto definition = format.required_string("definition");
  if (!syntax || !definition) return {};
  if (*syntax != "lark" && *syntax != "regex") format.problem("syntax", "must be \"lark\" or \"regex\"");
  return fmt::format("The input must match this {} definition:\n{}", *syntax, *definition);
}

json::object custom_parameters() {
  return {
      {"type", "object"},
      {"properties", {{"input", {{"type", "string"}, {"description", "The input of the tool, as it is."}}}}},
      {"required", {"input"}},
      {"additionalProperties", false}};
}

class Reader {
 public:
  Reader(const FieldReader& body, ResponsesRequest& request, Refusal& refusal)
      : body_(body), request_(request), refusal_(refusal) {}

  void read_list(const FieldReader& holder, Surroundings around, std::size_t limit) {
    const auto* list = holder.array("tools");
    if (list == nullptr) return;
    if (list->size() > limit)
      return holder.problem("tools",
                            fmt::format("must have at most {} entries, not {}", limit, list->size()));
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string path = holder.path_of("tools", i);
      if (const auto* object = (*list)[i].if_object()) {
        read_tool(FieldReader(*object, path, body_.problems()), around);
      } else {
        body_.problems().add(path, fmt::format("must be an object, not {}", kind_name((*list)[i])));
      }
    }
  }

 private:
  void read_tool(const FieldReader& tool, Surroundings around) {
    const auto type = tool.required_string("type");
    if (!type) return;
    if (*type == "namespace" && around.name_space.empty()) return read_name_space(tool);
    const bool custom = *type == "custom" || *type == "freeform";
    if (!custom && *type != "function")
      return tool.problem("type", "must be \"function\" or \"custom\" here");
    const auto name = tool.required_string("name");
    if (!name) return;
    if (!is_name(*name, kMaxToolName)) return tool.problem("name", std::string(kNameRule));
    std::string description = joined(around.description, tool.string("description").value_or(""));
    json::object function;
    const ResponsesTool known{custom ? Kind::custom : Kind::function, std::string(around.name_space),
                              std::string(*name)};
    const std::string local = local_tool_name(around.name_space, *name);
    function["name"] = local;
    if (custom) description = joined(description, grammar_note(tool));
    if (!description.empty()) function["description"] = description;
    if (custom) {
      function["parameters"] = custom_parameters();
    } else if (!add_schema(tool, function)) {
      return;
    }
    if (!request_.tools.emplace(local, known).second) {
      return tool.problem("name", fmt::format("\"{}\" is already the name of another tool", local));
    }
    request_.chat.generate.tools.push_back(
        {local, to_json(json::object{{"type", "function"}, {"function", std::move(function)}})});
  }

  bool add_schema(const FieldReader& tool, json::object& function) {
    const auto strict = tool.boolean("strict");
    const auto* parameters = tool.field("parameters");
    if (parameters == nullptr) {
      function["parameters"] = {{"type", "object"}, {"properties", json::object()}};
    } else if (parameters->is_object()) {
      function["parameters"] = *parameters;
    } else {
      refusal_.set(invalid_request(
          "invalid_tool_schema",
          fmt::format("{}: must be a JSON Schema of type \"object\"", tool.path_of("parameters")),
          tool.path_of("parameters")));
      return false;
    }
    if (strict) function["strict"] = *strict;
    return true;
  }

  void read_name_space(const FieldReader& tool) {
    const auto name = tool.required_string("name");
    const auto description = tool.string("description").value_or("");
    if (!name) return;
    if (!is_name(*name, kMaxNameSpace))
      return tool.problem("name", "must be 1 to 64 characters of A-Z a-z 0-9 _ -");
    const auto* list = tool.array("tools");
    if (list == nullptr || list->empty()) {
      if (list != nullptr || tool.field("tools") == nullptr)
        tool.problem("tools", "must have at least one tool");
      return;
    }
    read_list(tool, {*name, description}, kMaxNameSpaceTools);
  }

  const FieldReader& body_;
  ResponsesRequest& request_;
  Refusal& refusal_;
};

ApiError bad_choice(std::string_view path, std::string_view why) {
  return invalid_request("invalid_tool_choice", fmt::format("{}: {}", path, why), std::string(path));
}

// {"type":"function"|"custom","name","namespace"}: its name for the model; nothing where there is no such
// tool.
std::optional<std::string> named_tool(const FieldReader& choice, const ResponsesTools& tools,
                                      Refusal& refusal) {
  const auto type = choice.string("type").value_or("");
  const auto name = choice.required_string("name");
  if (!name) return std::nullopt;
  const std::string local = local_tool_name(choice.string("namespace").value_or(""), *name);
  const auto found = tools.find(local);
  if (found == tools.end()) {
    refusal.set(bad_choice(choice.path_of("name"),
                           fmt::format("\"{}\" is not one of the tools sent", excerpt(*name))));
    return std::nullopt;
  }
  const bool custom = found->second.kind == Kind::custom;
  if (custom != (type == "custom")) {
    choice.problem("type",
                   fmt::format("\"{}\" is a {} tool", excerpt(*name), custom ? "custom" : "function"));
    return std::nullopt;
  }
  return local;
}

void keep_only(const std::vector<std::string>& names, ResponsesRequest& request) {
  std::erase_if(request.chat.generate.tools,
                [&](const prompt::Tool& tool) { return std::ranges::find(names, tool.name) == names.end(); });
}

void read_word(std::string_view word, const FieldReader& body, std::string_view path,
               ResponsesRequest& request, Refusal& refusal) {
  prompt::GenerateRequest& generate = request.chat.generate;
  if (word == "auto") return;
  if (word == "none") {
    generate.tool_choice = prompt::ToolChoice::none;
    return;
  }
  if (word != "required") {
    return body.problems().add(std::string(path), "must be \"auto\", \"none\", \"required\" or an object");
  }
  if (generate.tools.empty()) return refusal.set(bad_choice(path, "\"required\" needs at least one tool"));
  generate.tool_choice = prompt::ToolChoice::required;
}

void read_allowed(const FieldReader& body, const FieldReader& choice, ResponsesRequest& request,
                  Refusal& refusal) {
  const auto* list = choice.array("tools");
  if (list == nullptr) return choice.problem("tools", "is required and must be an array");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* object = (*list)[i].if_object();
    const std::string path = choice.path_of("tools", i);
    if (object == nullptr) {
      body.problems().add(path, fmt::format("must be an object, not {}", kind_name((*list)[i])));
    } else if (auto name = named_tool(FieldReader(*object, path, body.problems()), request.tools, refusal)) {
      names.push_back(std::move(*name));
    }
  }
  keep_only(names, request);
  read_word(choice.string("mode").value_or("auto"), body, choice.path_of("mode"), request, refusal);
}

void read_choice(const FieldReader& body, ResponsesRequest& request, Refusal& refusal) {
  const auto* value = body.field("tool_choice");
  if (value == nullptr) return;
  if (const auto* word = value->if_string()) return read_word(*word, body, "tool_choice", request, refusal);
  const auto* object = value->if_object();
  if (object == nullptr) {
    return body.problem("tool_choice",
                        fmt::format("must be a string or an object, not {}", kind_name(*value)));
  }
  const FieldReader choice(*object, "tool_choice", body.problems());
  const auto type = choice.required_string("type");
  if (!type) return;
  if (*type == "allowed_tools") return read_allowed(body, choice, request, refusal);
  if (*type != "function" && *type != "custom")
    return choice.problem("type", "must be \"function\", \"custom\" or \"allowed_tools\"");
  const auto name = named_tool(choice, request.tools, refusal);
  if (!name) return;
  keep_only({*name}, request);
  request.chat.generate.tool_choice = prompt::ToolChoice::named;
  request.chat.generate.tool_name = *name;
}

}  // namespace

std::string local_tool_name(std::string_view name_space, std::string_view name) {
  if (name_space.empty()) return std::string(name);
  std::string local = fmt::format("{}__{}", name_space, name);
  if (local.size() <= kMaxLocalName) return local;
  std::string both(name_space);
  both += '\0';
  both += name;
  local.resize(kKeptOfLongName);
  return local + "__" + sha256_hex(both).substr(0, kDigestDigits);
}

std::string wrap_custom_input(std::string_view input) {
  return to_json(json::object{{"input", input}});
}

void read_responses_tools(const FieldReader& body, ResponsesRequest& request, Refusal& refusal) {
  Reader(body, request, refusal).read_list(body, {}, kMaxTools);
  read_choice(body, request, refusal);
}

}  // namespace gezel::api
