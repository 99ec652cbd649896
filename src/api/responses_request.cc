#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "api/responses_parts.h"
#include "base/json.h"

namespace gezel::api {
namespace {

constexpr std::array<std::string_view, 4> kToolTypes{"function", "custom", "freeform", "namespace"};

// A provider's own tool (web search, a code interpreter): nobody here could run it, and an answer without it
// would be another one than asked for.
std::optional<ApiError> hosted_tool(const json::object& body) {
  const auto* tools = array_at(body, "tools");
  if (tools == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const auto* tool = (*tools)[i].if_object();
    const auto* type = tool == nullptr ? nullptr : tool->if_contains("type");
    if (type == nullptr || !type->is_string()) continue;
    const std::string_view name = type->get_string();
    if (std::ranges::find(kToolTypes, name) != kToolTypes.end()) continue;
    return invalid_request(
        "unsupported_tool",
        fmt::format(
            "tools[{}]: \"{}\" is a tool that its provider hosts and this service does not have; switch it "
            "off in the client (in Codex: {} = \"disabled\")",
            i, excerpt(name), name.starts_with("web_search") ? "web_search" : "the tool's setting"),
        fmt::format("tools[{}].type", i));
  }
  return std::nullopt;
}

// Responses are not kept: what refers to a kept one, or asks for one to be kept, cannot be honoured.
std::optional<ApiError> stored_state(const json::object& body) {
  const auto refuse = [](std::string_view field) {
    return invalid_request(
        "stored_state_not_supported",
        fmt::format("{}: this service keeps no responses; send `store: false` and the items of the "
                    "conversation so far as `input`",
                    field),
        std::string(field));
  };
  for (const std::string_view field : {"previous_response_id", "conversation"}) {
    const auto* value = body.if_contains(field);
    if (value != nullptr && !value->is_null()) return refuse(field);
  }
  for (const std::string_view field : {"store", "background"}) {
    if (bool_or(body, field, false)) return refuse(field);
  }
  return std::nullopt;
}

void read_text_format(const FieldReader& body, prompt::OutputFormat& out) {
  using Kind = prompt::OutputFormat::Kind;
  const auto* text = body.object("text");
  if (text == nullptr) return;
  const FieldReader holder(*text, "text", body.problems());
  holder.string("verbosity");
  const auto* object = holder.object("format");
  if (object == nullptr) return;
  const FieldReader format(*object, "text.format", body.problems());
  const auto type = format.required_string("type");
  if (!type || *type == "text") return;
  if (*type == "json_object") {
    out.kind = Kind::json_object;
    return;
  }
  if (*type != "json_schema")
    return format.problem("type", "must be \"text\", \"json_object\" or \"json_schema\"");
  if (format.field("schema") == nullptr)
    return format.problem("schema", "is required and must be a JSON Schema, an object");
  read_schema(format, out);
}

void read_reasoning(const FieldReader& body, ResponsesRequest& request) {
  const auto* object = body.object("reasoning");
  if (object == nullptr) return;
  const FieldReader reasoning(*object, "reasoning", body.problems());
  if (const auto effort = reasoning.string("effort")) request.chat.generate.reasoning_effort = *effort;
  if (reasoning.string("summary")) {
    request.reasoning_summary = true;
    request.chat.include_reasoning = true;
  }
}

void read_include(const FieldReader& body, prompt::GenerateRequest& generate) {
  const auto* list = body.array("include");
  if (list == nullptr) return;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* word = (*list)[i].if_string();
    if (word == nullptr) {
      body.problems().add(body.path_of("include", i), "must be a string");
    } else if (*word == "message.output_text.logprobs") {
      generate.logprobs = true;
    }
  }
}

// A member of the body as it was sent, or what stands for it when it was not.
json::value echoed(const FieldReader& body, std::string_view name, json::value otherwise) {
  const auto* value = body.field(name);
  return value == nullptr ? std::move(otherwise) : *value;
}

json::object echo_of(const FieldReader& body) {
  json::object echo;
  echo["instructions"] = echoed(body, "instructions", nullptr);
  echo["metadata"] = echoed(body, "metadata", json::object());
  echo["parallel_tool_calls"] = echoed(body, "parallel_tool_calls", true);
  echo["previous_response_id"] = nullptr;
  echo["reasoning"] = echoed(body, "reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  echo["store"] = false;
  echo["temperature"] = echoed(body, "temperature", nullptr);
  echo["text"] = echoed(body, "text", {{"format", {{"type", "text"}}}});
  if (auto& text = echo["text"].as_object(); !text.contains("format")) text["format"] = {{"type", "text"}};
  echo["tool_choice"] = echoed(body, "tool_choice", "auto");
  echo["tools"] = echoed(body, "tools", json::array());
  echo["top_logprobs"] = echoed(body, "top_logprobs", 0);
  echo["top_p"] = echoed(body, "top_p", nullptr);
  echo["truncation"] = echoed(body, "truncation", "disabled");
  echo["max_output_tokens"] = echoed(body, "max_output_tokens", nullptr);
  return echo;
}

void read_rest(const FieldReader& body, ResponsesRequest& request) {
  ChatRequest& chat = request.chat;
  prompt::GenerateRequest& generate = chat.generate;
  read_model(body, chat.model);
  read_text_format(body, generate.output_format);
  read_reasoning(body, request);
  read_include(body, generate);
  read_sampling(body, generate.sampling);
  if (const auto limit = body.integer("max_output_tokens", 1, std::numeric_limits<std::int64_t>::max()))
    generate.max_output_tokens =
        static_cast<int>(std::min<std::int64_t>(*limit, std::numeric_limits<int>::max()));
  generate.top_logprobs = static_cast<int>(body.integer("top_logprobs", 0, 20).value_or(0));
  generate.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  body.boolean("store");
  body.boolean("background");
  body.object("metadata");
  const auto truncation = body.string("truncation");
  if (truncation && *truncation != "disabled" && *truncation != "auto")
    body.problem("truncation", "must be \"auto\" or \"disabled\"");
  chat.stream = body.boolean("stream").value_or(false);
  if (const auto key = body.string("prompt_cache_key")) generate.session_key = *key;
}

}  // namespace

ApiResult<ResponsesRequest> parse_responses_request(std::string_view body_text) {
  const auto object = parse_body(body_text);
  if (!object) return std::unexpected(object.error());
  if (auto error = hosted_tool(*object)) return std::unexpected(std::move(*error));
  if (auto error = stored_state(*object)) return std::unexpected(std::move(*error));

  Problems problems;
  const FieldReader body(*object, "", problems);
  Refusal refusal;
  ResponsesRequest request;
  read_rest(body, request);
  read_responses_tools(body, request, refusal);
  read_responses_input(body, request, refusal);
  if (!problems.empty()) return std::unexpected(problems.to_error());
  if (refusal.get()) return std::unexpected(*refusal.get());
  request.echo = echo_of(body);
  return request;
}

}  // namespace gezel::api
