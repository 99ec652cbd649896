// Tool sets from what clients send, and as text.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "grammar/matcher.h"
#include "grammar/schema_settle.h"
#include "grammar/tool_grammar.h"

namespace gezel::grammar {

namespace {

constexpr std::size_t kMostNameBytes = 64;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '.' || c == '-';
  });
}

std::unexpected<Error> invalid(std::size_t tool, std::string_view field, std::string message) {
  return fail(ErrorKind::invalid, "invalid_tool_schema", std::move(message),
              fmt::format("tools[{}].function.{}", tool, field));
}

// An error about the schema of a tool, with the tool in it.
std::unexpected<Error> of_tool(std::size_t tool, std::string_view name, Error error) {
  error.param = fmt::format("tools[{}].function.parameters{}", tool, error.param);
  error.message = fmt::format("Tool '{}': {}", name, error.message);
  return std::unexpected(std::move(error));
}

void take_warnings(std::string_view name, WalkedSchema& schema, std::vector<std::string>& warnings) {
  for (const auto& warning : schema.warnings) warnings.push_back(fmt::format("tool '{}', {}", name, warning));
  schema.warnings.clear();
}

// The arguments of a call are an object, also where the schema forgets to say so. Where it only lists
// properties, calls have no others: that more would be allowed is a default of JSON Schema, not something the
// tool offers.
Result<json::value> parameters_of(const json::object& tool, std::size_t number) {
  const auto* given = tool.if_contains("parameters");
  if (given == nullptr || given->is_null()) {
    return json::value{{"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
  }
  const auto* object = given->if_object();
  if (object == nullptr)
    return invalid(number, "parameters", "The parameters of a tool are a JSON Schema: an object.");
  json::object schema = *object;
  const auto* type = schema.if_contains("type");
  if (type == nullptr) {
    json::object typed{{"type", "object"}};
    for (auto& member : schema) typed[member.key()] = std::move(member.value());
    schema = std::move(typed);
  } else if (*type != json::value("object")) {
    return invalid(number, "parameters",
                   fmt::format("The parameters of a tool are a schema of type 'object', not {}.",
                               json::serialize(*type)));
  }
  const bool only_lists = std::ranges::none_of(
      std::initializer_list<const char*>{"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties",
                                         "additionalProperties", "unevaluatedProperties", "minProperties",
                                         "maxProperties"},
      [&](const char* key) { return schema.contains(key); });
  const auto* properties = object_at(schema, "properties");
  if (only_lists && properties != nullptr && !properties->empty()) schema["additionalProperties"] = false;
  return json::value(std::move(schema));
}

json::object as_json(const WalkedSchema& schema) {
  return {{"root", schema.root}, {"definitions", schema.definitions}};
}

Result<WalkedSchema> from_json(const json::value& value) {
  const auto* object = value.if_object();
  if (object == nullptr || !object->contains("root") || object_at(*object, "definitions") == nullptr) {
    return fail(ErrorKind::corrupt, "tool-set-unreadable", "A schema of the tool set is damaged.");
  }
  WalkedSchema schema;
  schema.root = object->at("root");
  schema.definitions = object->at("definitions").get_object();
  return schema;
}

}  // namespace

Result<std::vector<Tool>> walk_tools(const json::array& tools, std::vector<std::string>& warnings,
                                     const ToolLimits& limits) {
  if (tools.size() > limits.tools) {
    return fail(ErrorKind::invalid, "invalid_tool_schema",
                fmt::format("The request has {} tools; {} are allowed.", tools.size(), limits.tools),
                "tools");
  }
  std::vector<Tool> walked;
  std::set<std::string, std::less<>> names;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const auto* tool = tools[i].if_object();
    if (tool == nullptr) return invalid(i, "name", "A tool is an object.");
    const auto name = string_or(*tool, "name");
    if (!is_name(name)) {
      return invalid(i, "name",
                     fmt::format("'{}' cannot be the name of a tool: 1 to {} of A-Z a-z 0-9 _ . - are.",
                                 name.substr(0, 80), kMostNameBytes));
    }
    if (!names.insert(name).second)
      return invalid(i, "name", fmt::format("Two tools are called '{}'.", name));
    GEZEL_TRY(const auto schema, parameters_of(*tool, i));
    if (bytes += json::serialize(schema).size(); bytes > limits.bytes) {
      return fail(ErrorKind::too_large, "invalid_tool_schema",
                  fmt::format("The schemas of the tools have more than {} bytes together.", limits.bytes),
                  "tools");
    }
    const auto mode = bool_or(*tool, "strict", false) ? SchemaMode::strict : SchemaMode::lenient;
    auto parameters = walk_schema(schema, mode, limits.schema);
    if (!parameters) return of_tool(i, name, std::move(parameters).error());
    take_warnings(name, *parameters, warnings);
    walked.push_back({name, std::move(*parameters), mode == SchemaMode::strict});
  }
  return walked;
}

Result<> settle_tools(ToolSet& set, std::vector<std::string>& warnings) {
  GEZEL_TRY(const auto grammar, tool_grammar(set, *Vocabulary::of_bytes()));
  if (check_grammar(*Vocabulary::of_bytes(), Notation::lark, grammar.lark)) return {};
  for (std::size_t i = 0; i < set.tools.size(); ++i) {
    auto& tool = set.tools[i];
    const auto settled =
        settle_schema(tool.parameters, tool.strict ? SchemaMode::strict : SchemaMode::lenient);
    if (!settled) return of_tool(i, tool.name, settled.error());
    take_warnings(tool.name, tool.parameters, warnings);
  }
  return {};
}

std::string tool_set_text(const ToolSet& tools) {
  json::array list;
  for (const auto& tool : tools.tools) {
    auto one = as_json(tool.parameters);
    one["name"] = tool.name;
    list.push_back(std::move(one));
  }
  json::object all{{"dialect", tools.dialect},
                   {"lazy", tools.mode == ToolMode::lazy},
                   {"parallel", tools.parallel},
                   {"tools", std::move(list)}};
  if (tools.answer) all["answer"] = as_json(*tools.answer);
  return json::serialize(all);
}

Result<ToolSet> read_tool_set(std::string_view text) {
  // Deeper than what clients may send: the schemas lie inside, and their normal form is deeper than what it
  // came from.
  json::parse_options options;
  options.max_depth = 256;
  boost::system::error_code error;
  const auto value = json::parse(text, error, {}, options);
  const auto* all = error ? nullptr : value.if_object();
  if (all == nullptr || array_at(*all, "tools") == nullptr) {
    return fail(ErrorKind::corrupt, "tool-set-unreadable", "The tool set is no JSON of the expected form.");
  }
  ToolSet set;
  set.dialect = string_or(*all, "dialect");
  set.mode = bool_or(*all, "lazy", true) ? ToolMode::lazy : ToolMode::eager;
  set.parallel = bool_or(*all, "parallel", true);
  for (const auto& tool : *array_at(*all, "tools")) {
    GEZEL_TRY(auto parameters, from_json(tool));
    set.tools.push_back({string_or(tool.get_object(), "name"), std::move(parameters)});
  }
  if (const auto* answer = all->if_contains("answer")) {
    GEZEL_TRY(set.answer, from_json(*answer));
  }
  return set;
}

}  // namespace gezel::grammar
