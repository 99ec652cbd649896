#include <fmt/format.h>

#include "api/chat_parts.h"

namespace gezel::api {
namespace {

using Kind = prompt::OutputFormat::Kind;

struct Syntax {
  std::string_view name;
  Kind kind;
};
constexpr Syntax kSyntaxes[] = {{"gbnf", Kind::gbnf}, {"lark", Kind::lark}, {"regex", Kind::regex}};

void read_json_schema(const FieldReader& format, prompt::OutputFormat& out) {
  const auto* holder = format.object("json_schema");
  if (holder == nullptr) {
    if (format.field("json_schema") == nullptr)
      format.problem("json_schema", "is required and must be an object");
    return;
  }
  const FieldReader fields(*holder, format.path_of("json_schema"), format.problems());
  read_schema(fields, out);
}

void read_grammar(const FieldReader& format, prompt::OutputFormat& out) {
  const auto syntax = format.required_string("syntax");
  const auto definition = format.required_string("definition");
  if (!syntax || !definition) return;
  for (const auto& [name, kind] : kSyntaxes) {
    if (*syntax != name) continue;
    out.kind = kind;
    out.definition = *definition;
    return;
  }
  format.problem("syntax", "must be \"gbnf\", \"lark\" or \"regex\"");
}

void read_response_format(const FieldReader& body, prompt::OutputFormat& out) {
  const auto* object = body.object("response_format");
  if (object == nullptr) return;
  const FieldReader format(*object, "response_format", body.problems());
  const auto type = format.required_string("type");
  if (!type || *type == "text") return;
  if (*type == "json_schema") return read_json_schema(format, out);
  if (*type == "grammar") return read_grammar(format, out);
  if (*type != "json_object") {
    return format.problem("type", "must be \"text\", \"json_object\", \"json_schema\" or \"grammar\"");
  }
  out.kind = Kind::json_object;
  if (const auto* schema = format.object("schema")) {
    out.kind = Kind::json_schema;
    out.definition = to_json(*schema);
  }
}

}  // namespace

void read_schema(const FieldReader& fields, prompt::OutputFormat& out) {
  fields.string("name");
  fields.string("description");
  fields.boolean("strict");  // either way the schema is enforced
  const auto* schema = fields.field("schema");
  out.kind = Kind::json_schema;
  if (schema == nullptr) {
    out.definition = "{}";
  } else if (schema->is_object() || schema->is_bool()) {
    out.definition = to_json(*schema);
  } else {
    fields.problem("schema", fmt::format("must be a JSON Schema, an object, not {}", kind_name(*schema)));
  }
}

void read_output_format(const FieldReader& body, prompt::GenerateRequest& generate, Refusal& refusal) {
  prompt::OutputFormat& out = generate.output_format;
  read_response_format(body, out);
  int ways = out.kind == Kind::text ? 0 : 1;
  if (const auto* schema = body.object("json_schema")) {
    ++ways;
    out = {Kind::json_schema, to_json(*schema)};
  }
  if (const auto grammar = body.string("grammar"); grammar && !grammar->empty()) {
    ++ways;
    out = {Kind::gbnf, std::string(*grammar)};
  }
  if (ways > 1) {
    refusal.set(invalid_request("unsupported_response_format",
                                "response_format, json_schema and grammar: send only one of them",
                                "response_format"));
  }
  const bool is_json =
      out.kind == Kind::text || out.kind == Kind::json_object || out.kind == Kind::json_schema;
  if (!is_json && !generate.tools.empty() && generate.tool_choice != prompt::ToolChoice::none) {
    refusal.set(invalid_request(
        "unsupported_response_format",
        "response_format: a grammar and tools cannot be combined; send one of them, or tool_choice \"none\"",
        "response_format"));
  }
}

}  // namespace gezel::api
