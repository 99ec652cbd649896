#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "api/chat.h"
#include "api/chat_parts.h"
#include "api/field_reader.h"
#include "base/json.h"
#include "prompt/tuning_profiles.h"

namespace gezel::api {
namespace {

// Fields whose meaning cannot be honoured: refused rather than ignored (spec 10 section 6.1).
struct UnsupportedField {
  std::string_view name;
  std::string_view remedy;
};
constexpr std::array kUnsupportedFields{
    UnsupportedField{"functions", "send `tools` instead"},
    UnsupportedField{"function_call", "send `tool_choice` instead"},
    UnsupportedField{"audio", "leave it out; this service answers in text"},
    UnsupportedField{"web_search_options", "leave it out; this service does not search the web"},
};

void read_unsupported(const FieldReader& body, Refusal& refusal) {
  for (const auto& [name, remedy] : kUnsupportedFields) {
    if (body.field(name) == nullptr) continue;
    refusal.set(invalid_request("unsupported_parameter", fmt::format("{}: not supported; {}", name, remedy),
                                std::string(name)));
  }
  const auto* modalities = body.array("modalities");
  if (modalities == nullptr) return;
  for (std::size_t i = 0; i < modalities->size(); ++i) {
    const auto* word = (*modalities)[i].if_string();
    if (word == nullptr) {
      body.problems().add(body.path_of("modalities", i), "must be a string");
    } else if (*word != "text") {
      refusal.set(invalid_request("unsupported_parameter",
                                  "modalities: only \"text\" is supported; leave the others out",
                                  "modalities"));
    }
  }
}

void read_limits(const FieldReader& body, prompt::GenerateRequest& generate) {
  constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();
  const auto old_name = body.integer("max_tokens", 1, kNoLimit);
  const auto new_name = body.integer("max_completion_tokens", 1, kNoLimit);
  if (const auto limit = new_name ? new_name : old_name) {
    generate.max_output_tokens =
        static_cast<int>(std::min<std::int64_t>(*limit, std::numeric_limits<int>::max()));
  }
  generate.context = body.integer("num_ctx", 1, kMaxWindowTokens);
  // Zero and less: no budget, not that of the model's profile either.
  const auto thinking = body.integer("max_thinking_tokens", -1, std::numeric_limits<int>::max());
  if (thinking) generate.max_thinking_tokens = std::max(0, static_cast<int>(*thinking));
}

void read_stop(const FieldReader& body, std::vector<std::string>& stop) {
  const auto* value = body.field("stop");
  if (value == nullptr) return;
  if (const auto* text = value->if_string()) {
    if (text->empty()) return body.problem("stop", "must not be empty");
    stop.emplace_back(*text);
    return;
  }
  const auto* list = value->if_array();
  if (list == nullptr) {
    return body.problem("stop",
                        fmt::format("must be a string or an array of strings, not {}", kind_name(*value)));
  }
  if (list->size() > kMaxStopStrings) {
    return body.problem("stop",
                        fmt::format("must have at most {} strings, not {}", kMaxStopStrings, list->size()));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* text = (*list)[i].if_string();
    if (text == nullptr || text->empty()) {
      body.problems().add(body.path_of("stop", i), "must be a non-empty string");
    } else {
      stop.emplace_back(*text);
    }
  }
}

void read_logprobs(const FieldReader& body, prompt::GenerateRequest& generate) {
  generate.logprobs = body.boolean("logprobs").value_or(false);
  generate.top_logprobs = static_cast<int>(body.integer("top_logprobs", 0, 20).value_or(0));
  if (generate.top_logprobs > 0 && !generate.logprobs && !body.field("logprobs")) {
    body.problem("top_logprobs", "needs `logprobs: true`");
  }
}

void read_count(const FieldReader& body, Refusal& refusal) {
  const auto n = body.integer("n", 1, std::numeric_limits<std::int64_t>::max());
  if (n && *n != 1) {
    refusal.set(invalid_request(
        "n_not_supported_v1",
        fmt::format("n: only 1 is supported, not {}; send several requests instead", *n), "n"));
  }
}

void read_tuning_profile(const FieldReader& body, prompt::GenerateRequest& generate) {
  const auto id = body.string("tuning_profile");
  if (!id) return;
  if (prompt::find_tuning_profile(*id) == nullptr) {
    return body.problem("tuning_profile", fmt::format("must be one of {}, not \"{}\"",
                                                      prompt::tuning_profile_ids(), excerpt(*id)));
  }
  generate.tuning_profile = *id;
}

}  // namespace

void read_model(const FieldReader& body, std::string& model) {
  const auto text = body.string("model");
  if (!text) return;
  if (text->find_first_not_of(" \t\r\n") == std::string_view::npos)
    return body.problem("model", "must not be blank");
  if (text->size() > kMaxModelIdBytes) {
    return body.problem("model",
                        fmt::format("must have at most {} bytes, not {}", kMaxModelIdBytes, text->size()));
  }
  model = *text;
}

ApiResult<ChatRequest> parse_chat_request(std::string_view body_text) {
  const auto object = parse_body(body_text);
  if (!object) return std::unexpected(object.error());
  Problems problems;
  const FieldReader body(*object, "", problems);
  Refusal refusal;
  ChatRequest request;
  prompt::GenerateRequest& generate = request.generate;

  read_model(body, request.model);
  read_unsupported(body, refusal);
  read_count(body, refusal);
  read_messages(body, generate, refusal);
  read_tools(body, generate, refusal);
  read_output_format(body, generate, refusal);
  read_sampling(body, generate.sampling);
  read_limits(body, generate);
  read_stop(body, generate.stop);
  read_logprobs(body, generate);

  request.stream = body.boolean("stream").value_or(false);
  if (const auto* options = body.object("stream_options")) {
    request.include_usage =
        FieldReader(*options, "stream_options", problems).boolean("include_usage").value_or(false);
  }
  request.include_reasoning = body.boolean("include_reasoning").value_or(false);
  request.return_progress = body.boolean("return_progress").value_or(false);
  generate.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  generate.guards = body.boolean("guards").value_or(true);
  if (const auto effort = body.string("reasoning_effort")) generate.reasoning_effort = *effort;
  read_tuning_profile(body, generate);
  if (const auto* kwargs = body.object("chat_template_kwargs")) generate.template_kwargs = to_json(*kwargs);
  if (const auto key = body.string("prompt_cache_key")) generate.session_key = *key;

  if (!problems.empty()) return std::unexpected(problems.to_error());
  if (refusal.get()) return std::unexpected(*refusal.get());
  return request;
}

}  // namespace gezel::api
