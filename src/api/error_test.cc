#include "api/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/exchange.h"
#include "base/files.h"
#include "base/json.h"

namespace gezel::api {
namespace {

using testing::HasSubstr;
using testing::Not;

engine::EngineError engine_error(const json::object& row) {
  engine::EngineError error;
  error.error.code = string_or(row, "code");
  error.error.message = string_or(row, "message");
  error.error.param = string_or(row, "param");
  error.http_hint = static_cast<int>(int_or(row, "hint", 0));
  const std::string retry = string_or(row, "retry");
  error.retry = retry == "never"   ? engine::Retry::never
                : retry == "after" ? engine::Retry::after
                                   : engine::Retry::same_engine;
  error.retry_after_ms = int_or(row, "after_ms", 0);
  error.incident_id = string_or(row, "incident");
  error.prompt_tokens = int_or(row, "prompt", 0);
  error.context_tokens = int_or(row, "context", 0);
  if (const auto* value = row.if_contains("window")) {
    const auto& window = value->as_object();
    error.window = engine::WindowNumbers{.needed = int_or(window, "needed", 0),
                                         .granted = int_or(window, "granted", 0),
                                         .native = int_or(window, "native", 0),
                                         .limit = int_or(window, "limit", 0),
                                         .largest = int_or(window, "largest", 0),
                                         .binding = string_or(window, "binding")};
  }
  return error;
}

TEST(EngineErrors, BecomeTheWireErrorsOfTheTable) {
  const auto text = read_file(fs::path(GEZEL_TESTDATA) / "api" / "engine_errors.json");
  ASSERT_TRUE(text);
  const auto table = parse_json(*text);
  ASSERT_TRUE(table);
  for (const auto& row : table->as_array()) {
    const auto& wire = row.at("wire").as_object();
    SCOPED_TRACE(to_json(row));
    const ApiError error = from_engine(engine_error(row.at("engine").as_object()));
    EXPECT_EQ(error.status, int_or(wire, "status", 0));
    EXPECT_EQ(error.type, string_or(wire, "type"));
    EXPECT_EQ(error.code, string_or(wire, "code"));
    EXPECT_EQ(error.should_not_retry, bool_or(wire, "should_not_retry", false));
    EXPECT_EQ(error.retry_after_s.value_or(0), int_or(wire, "retry_after", 0));
    if (wire.contains("param")) EXPECT_EQ(error.param, string_or(wire, "param"));
    const std::string body = error_body(error, "req-1");
    if (wire.contains("has")) EXPECT_THAT(body, HasSubstr(string_or(wire, "has")));
    if (wire.contains("hasnt")) EXPECT_THAT(body, Not(HasSubstr(string_or(wire, "hasnt"))));
    const auto parsed = parse_json(body);
    ASSERT_TRUE(parsed) << body;
    const auto& envelope = parsed->at("error").as_object();
    EXPECT_EQ(int_or(envelope, "n_prompt_tokens", 0), int_or(wire, "n_prompt_tokens", 0));
    EXPECT_EQ(int_or(envelope, "n_ctx", 0), int_or(wire, "n_ctx", 0));
    if (const auto* window = wire.if_contains("window")) {
      for (const auto& member : window->as_object())
        EXPECT_EQ(envelope.at(member.key()), member.value()) << member.key();
    }
    EXPECT_EQ(string_or(envelope, "incident_id"), string_or(wire, "incident"));
    EXPECT_EQ(parsed->as_object().contains("request_id"), error.status >= 500);
  }
}

TEST(Errors, KeepTheOriginalTextForTheLogOnly) {
  const ApiError error = from_error({ErrorKind::io, "io", "open /secret/place: EACCES", ""});
  EXPECT_EQ(error.status, 500);
  EXPECT_THAT(error_body(error, "r"), Not(HasSubstr("secret")));
  EXPECT_THAT(error.detail, HasSubstr("/secret/place"));
}

TEST(Errors, OfTheCallerKeepTheirMessageAndCode) {
  const ApiError error = from_error({ErrorKind::conflict, "model-busy", "2 requests are running", "model"});
  EXPECT_EQ(error.status, 409);
  EXPECT_EQ(
      error_body(error, "r"),
      R"({"error":{"message":"2 requests are running","type":"invalid_request_error","code":"model_busy","param":"model"}})");
  EXPECT_EQ(flat_error_body(error, "r"),
            R"({"error":"model_busy","message":"2 requests are running","param":"model"})");
}

TEST(Errors, CarryTheirHeaders) {
  EXPECT_THAT(error_headers(unauthorized()), testing::Contains(std::pair("www-authenticate", "Bearer")));
  ApiError error = shutting_down();
  error.retry_after_s = 3;
  error.should_not_retry = true;
  EXPECT_THAT(error_headers(error),
              testing::IsSupersetOf({std::pair<std::string, std::string>("retry-after", "3"),
                                     std::pair<std::string, std::string>("x-should-retry", "false")}));
}

TEST(AffinityKey, PrefersHeadersAndSeparatesApplications) {
  EXPECT_EQ(affinity_key({}, "", "app"), "");
  EXPECT_EQ(affinity_key({}, "cache", "app"), "app:cache");
  EXPECT_EQ(affinity_key({{"x-session-id", "s"}}, "", "app"), "app:s");
  EXPECT_EQ(affinity_key({{"x-session-id", "s"}}, "cache", "app"), "app:cache");
  EXPECT_EQ(
      affinity_key({{"x-gezel-external-conversation-id", "e"}, {"x-gezel-session", " g "}}, "cache", "b"),
      "b:g");
  EXPECT_EQ(affinity_key({{"x-gezel-session", std::string(513, 'x')}}, "cache", "b"), "b:cache");
}

}  // namespace
}  // namespace gezel::api
