#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "api/chat.h"
#include "api/test_requests.h"
#include "base/json.h"

namespace gezel::api {
namespace {

using test::describe;
using testing::HasSubstr;

TEST(ChatRequest, AnswersEveryCaseOfTheTable) {
  test::check_table("chat_requests.json", parse_chat_request,
                    [](const ChatRequest& request) { return describe(request); });
}

TEST(ChatRequest, NamesTheByteOfInvalidUtf8) {
  const auto result = parse_chat_request("{\"model\":\"\xff\"}");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "invalid_utf8");
  EXPECT_THAT(result.error().message, HasSubstr("byte 10"));
}

TEST(ChatRequest, RefusesNestingBeyondTheLimit) {
  const auto nested = [](int depth) {
    return R"({"model":"m","messages":[{"role":"user","content":"x"}],"extra":)" + std::string(depth, '[') +
           std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(parse_chat_request(nested(kMaxJsonDepth - 2)));
  const auto result = parse_chat_request(nested(kMaxJsonDepth + 1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "invalid_json");
}

TEST(ChatRequest, ListsABoundedNumberOfProblems) {
  std::string body = R"({"model":"m","messages":[)";
  for (int i = 0; i < 1000; ++i) body += i == 0 ? "1" : ",1";
  const auto result = parse_chat_request(body + "]}");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("; and 968 more"));
  EXPECT_LT(result.error().message.size(), 3000U);
}

std::string repeated(std::string_view element, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) (out += i == 0 ? "" : ",") += element;
  return out;
}

// Within what the protocol to a worker takes: a request that passes here is never one a worker cannot read.
TEST(ChatRequest, BoundsTheElementsOfEveryList) {
  const auto body = [](std::string_view messages, std::string_view more = "") {
    return fmt::format(R"({{"model":"m","messages":[{}]{}}})", messages, more);
  };
  const std::string user = R"({"role":"user","content":"x"})";
  const auto messages = [&](std::size_t n) { return body(repeated(user, n)); };
  const auto parts = [&](std::size_t n) {
    return body(
        fmt::format(R"({{"role":"user","content":[{}]}})", repeated(R"({"type":"text","text":"x"})", n)));
  };
  const auto calls = [&](std::size_t n) {
    const auto list = repeated(R"({"id":"c","type":"function","function":{"name":"f"}})", n);
    return body(fmt::format(R"({{"role":"assistant","tool_calls":[{}]}},{})", list, user));
  };
  const auto tools = [&](std::size_t n) {
    std::string list;
    for (std::size_t i = 0; i < n; ++i) {
      list += fmt::format(R"({}{{"type":"function","function":{{"name":"f{}"}}}})", i == 0 ? "" : ",", i);
    }
    return body(user, fmt::format(R"(,"tools":[{}])", list));
  };
  struct Case {
    std::string param;
    std::size_t limit;
    std::function<std::string(std::size_t)> with;
  };
  const Case cases[] = {{"messages", kMaxMessages, messages},
                        {"messages[0].content", kMaxContentParts, parts},
                        {"messages[0].tool_calls", kMaxToolCalls, calls},
                        {"tools", kMaxTools, tools}};
  for (const auto& [param, limit, with] : cases) {
    SCOPED_TRACE(param);
    EXPECT_TRUE(parse_chat_request(with(limit)));
    const auto result = parse_chat_request(with(limit + 1));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().status, 400);
    EXPECT_EQ(result.error().code, "invalid_body");
    EXPECT_EQ(result.error().param, param);
    EXPECT_THAT(result.error().message, HasSubstr(fmt::format("at most {} ", limit)));
    EXPECT_THAT(result.error().message, HasSubstr(fmt::format("not {}", limit + 1)));
  }
}

TEST(ChatRequest, CutsQuotedTextAtWholeCharacters) {
  std::string name;
  for (int i = 0; i < 40; ++i) name += "\u20ac";
  const auto result = parse_chat_request(R"({"model":"m","messages":[{"role":"user","content":[{"type":")" +
                                         name + R"("}]}]})");
  ASSERT_FALSE(result);
  EXPECT_TRUE(parse_json(error_body(result.error(), "r")));
}

}  // namespace
}  // namespace gezel::api
