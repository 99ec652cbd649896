// api/test_requests.h
//
// For tests of request bodies: tables of bodies, and what a parsed request is in words.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat.h"
#include "base/files.h"
#include "base/json.h"

namespace gezel::api::test {

inline json::value load_table(std::string_view name) {
  const auto text = read_file(fs::path(GEZEL_TESTDATA) / "api" / name);
  EXPECT_TRUE(text) << name;
  auto table = parse_json(text.value_or("[]"));
  EXPECT_TRUE(table) << name;
  return table.value_or(json::array());
}

inline std::string_view role_name(prompt::Role role) {
  constexpr std::string_view kNames[] = {"system", "developer", "user", "assistant", "tool"};
  return kNames[static_cast<int>(role)];
}

inline json::object describe(const prompt::Message& message) {
  json::object out{{"role", role_name(message.role)}};
  if (!message.content.empty()) out["text"] = message.content.front().text;
  if (!message.reasoning.empty()) out["reasoning"] = message.reasoning;
  if (!message.tool_call_id.empty()) out["call"] = message.tool_call_id;
  if (!message.name.empty()) out["name"] = message.name;
  if (!message.tool_calls.empty()) {
    json::array calls;
    for (const auto& call : message.tool_calls) calls.push_back({call.id, call.name, call.arguments});
    out["calls"] = calls;
  }
  return out;
}

inline std::string describe_choice(const prompt::GenerateRequest& generate) {
  constexpr std::string_view kNames[] = {"auto", "none", "required", "named "};
  return std::string(kNames[static_cast<int>(generate.tool_choice)]) + generate.tool_name;
}

inline std::string describe(const prompt::OutputFormat& format) {
  constexpr std::string_view kNames[] = {"text", "json_object", "json_schema", "regex", "lark", "gbnf"};
  return std::string(kNames[static_cast<int>(format.kind)]) +
         (format.definition.empty() ? "" : " " + format.definition);
}

inline json::object describe(const prompt::SamplingOptions& sampling) {
  json::object out;
  const auto put = [&out](std::string_view name, const auto& value) {
    if (value) out[name] = *value;
  };
  put("temperature", sampling.temperature);
  put("top_p", sampling.top_p);
  put("top_k", sampling.top_k);
  put("min_p", sampling.min_p);
  put("typical_p", sampling.typical_p);
  put("repeat_penalty", sampling.repeat_penalty);
  put("repeat_last_n", sampling.repeat_last_n);
  put("presence_penalty", sampling.presence_penalty);
  put("frequency_penalty", sampling.frequency_penalty);
  put("seed", sampling.seed);
  put("dry_multiplier", sampling.dry_multiplier);
  put("dry_base", sampling.dry_base);
  put("dry_allowed_length", sampling.dry_allowed_length);
  put("dry_penalty_last_n", sampling.dry_penalty_last_n);
  put("xtc_probability", sampling.xtc_probability);
  put("xtc_threshold", sampling.xtc_threshold);
  put("mirostat", sampling.mirostat);
  put("mirostat_tau", sampling.mirostat_tau);
  put("mirostat_eta", sampling.mirostat_eta);
  if (sampling.dry_sequence_breakers)
    out["dry_sequence_breakers"] = json::value_from(*sampling.dry_sequence_breakers);
  if (sampling.ignore_eos) out["ignore_eos"] = true;
  if (!sampling.logit_bias.empty()) {
    json::array biases;
    for (const auto& [token, bias] : sampling.logit_bias) biases.push_back({token, bias});
    out["logit_bias"] = biases;
  }
  return out;
}

// What the table speaks about.
inline json::object describe(const ChatRequest& request) {
  const auto& generate = request.generate;
  json::array messages, tools;
  for (const auto& message : generate.messages) messages.push_back(describe(message));
  for (const auto& tool : generate.tools) tools.push_back({tool.name, tool.json});
  return {{"model", request.model},
          {"stream", request.stream},
          {"include_usage", request.include_usage},
          {"include_reasoning", request.include_reasoning},
          {"progress", request.return_progress},
          {"messages", messages},
          {"tools", tools},
          {"tool_choice", describe_choice(generate)},
          {"format", describe(generate.output_format)},
          {"max_thinking_tokens",
           generate.max_thinking_tokens ? json::value(*generate.max_thinking_tokens) : json::value()},
          {"max", generate.max_output_tokens ? json::value(*generate.max_output_tokens) : json::value()},
          {"num_ctx", generate.context ? json::value(*generate.context) : json::value()},
          {"stop", json::value_from(generate.stop)},
          {"logprobs", generate.logprobs},
          {"top_logprobs", generate.top_logprobs},
          {"sampling", describe(generate.sampling)},
          {"effort", generate.reasoning_effort},
          {"tuning_profile", generate.tuning_profile},
          {"kwargs", generate.template_kwargs},
          {"session", generate.session_key}};
}

// Numbers compare by value: 2 equals 2.0.
inline bool same(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
  if (a.is_array() && b.is_array()) {
    return std::ranges::equal(a.get_array(), b.get_array(), same);
  }
  if (a.is_object() && b.is_object()) {
    const auto &left = a.get_object(), &right = b.get_object();
    return left.size() == right.size() && std::ranges::all_of(left, [&](const auto& member) {
             const auto* other = right.if_contains(member.key());
             return other != nullptr && same(member.value(), *other);
           });
  }
  return a == b;
}

template <class Request>
void expect_error(const json::object& expected, const ApiResult<Request>& result) {
  ASSERT_FALSE(result) << "was accepted";
  const ApiError& error = result.error();
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.type, "invalid_request_error");
  EXPECT_EQ(error.code, string_or(expected, "code")) << error.message;
  if (expected.contains("param")) EXPECT_EQ(error.param, string_or(expected, "param")) << error.message;
  if (const auto* parts = array_at(expected, "has")) {
    for (const auto& part : *parts)
      EXPECT_THAT(error.message, testing::HasSubstr(std::string(part.as_string())));
  }
}

// Each row has a body, or raw text, and an error or members of what describe() says of the request.
template <class Parse, class Describe>
void check_table(std::string_view name, Parse parse, Describe describe_request) {
  const json::value table = load_table(name);
  ASSERT_FALSE(table.as_array().empty());
  for (const auto& row : table.as_array()) {
    const auto& test_case = row.as_object();
    SCOPED_TRACE(std::string(test_case.at("name").as_string()));
    const auto* raw = test_case.if_contains("raw");
    const std::string body = raw != nullptr ? std::string(raw->as_string()) : to_json(test_case.at("body"));
    const auto result = parse(body);
    if (const auto* error = object_at(test_case, "error")) {
      expect_error(*error, result);
      continue;
    }
    ASSERT_TRUE(result) << result.error().message;
    const json::object got = describe_request(*result);
    for (const auto& member : test_case.at("request").as_object()) {
      EXPECT_TRUE(same(got.at(member.key()), member.value()))
          << member.key() << ": " << to_json(got.at(member.key())) << " instead of "
          << to_json(member.value());
    }
  }
}

}  // namespace gezel::api::test
