#include "api/chat_constraints.h"

#include <fmt/format.h>

#include "base/json.h"
#include "grammar/constraint.h"
#include "grammar/tool_grammar.h"
#include "grammar/validator.h"

namespace gezel::api {
namespace {

using Kind = prompt::OutputFormat::Kind;

grammar::ConstraintSpec spec_of(const prompt::OutputFormat& format) {
  using grammar::ConstraintKind;
  switch (format.kind) {
    case Kind::json_schema:
      return {ConstraintKind::json_schema, format.definition};
    case Kind::regex:
      return {ConstraintKind::regex, format.definition};
    case Kind::lark:
      return {ConstraintKind::lark, format.definition};
    case Kind::gbnf:
      return {ConstraintKind::gbnf, format.definition};
    case Kind::text:
    case Kind::json_object:
      break;
  }
  return {ConstraintKind::json_object, {}};
}

ApiError unsupported_format(const Error& error) {
  std::string param = "response_format";
  if (!error.param.empty()) param += " " + error.param;
  return invalid_request("unsupported_response_format", "response_format: " + error.message, param);
}

json::array functions_of(const std::vector<prompt::Tool>& tools) {
  json::array out;
  for (const auto& tool : tools) {
    auto parsed = parse_json(tool.json);
    const auto* object = parsed ? parsed->if_object() : nullptr;
    const auto* function = object != nullptr ? object_at(*object, "function") : nullptr;
    out.emplace_back(function != nullptr ? *function : json::object{});
  }
  return out;
}

Result<> check_tools(const std::vector<prompt::Tool>& tools, std::vector<std::string>& warnings) {
  grammar::ToolSet set;
  GEZEL_TRY(set.tools, grammar::walk_tools(functions_of(tools), warnings));
  set.dialect = "hermes";  // any that carries whole schemas: how calls are spelled is the model's business
  return grammar::settle_tools(set, warnings);
}

}  // namespace

bool has_constraints(const prompt::GenerateRequest& request) {
  return request.output_format.kind != Kind::text || !request.tools.empty();
}

ApiResult<std::vector<std::string>> check_constraints(const prompt::GenerateRequest& request) {
  std::vector<std::string> warnings;
  if (request.output_format.kind != Kind::text) {
    auto prepared = grammar::prepare(spec_of(request.output_format));
    if (!prepared) return std::unexpected(unsupported_format(prepared.error()));
    for (const auto& warning : prepared->warnings) warnings.push_back("response_format: " + warning);
  }
  if (!request.tools.empty()) {
    const auto checked = check_tools(request.tools, warnings);
    if (!checked) {
      return std::unexpected(
          invalid_request("invalid_tool_schema", "tools: " + checked.error().message, checked.error().param));
    }
  }
  return warnings;
}

struct AnswerCheck::Impl {
  bool json = false;
  std::optional<grammar::Validator> validator;
};

AnswerCheck::AnswerCheck(const prompt::OutputFormat& format) : impl_(std::make_unique<Impl>()) {
  impl_->json = format.kind == Kind::json_object || format.kind == Kind::json_schema;
  if (!impl_->json) return;
  auto schema = parse_json(format.definition.empty() ? R"({"type":"object"})" : format.definition);
  if (schema) impl_->validator.emplace(std::move(*schema));
}

AnswerCheck::~AnswerCheck() = default;

std::optional<ApiError> AnswerCheck::judge(std::string_view content) const {
  if (!impl_->json) return std::nullopt;
  std::string problem;
  const auto value = parse_json(content);
  if (!value) {
    problem = value.error().message;
  } else if (impl_->validator) {
    const auto verdict = impl_->validator->check(*value);
    if (!verdict.valid) problem = verdict.message;
  }
  if (problem.empty()) return std::nullopt;
  ApiError error;
  error.status = 500;
  error.type = "server_error";
  error.code = "constraint_failed";
  error.message = fmt::format("the answer left its schema ({}); send the request again", problem);
  error.param = "response_format";
  return error;
}

}  // namespace gezel::api
