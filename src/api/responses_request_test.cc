#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/responses.h"
#include "api/test_requests.h"

namespace gezel::api {
namespace {

json::object describe(const ResponsesRequest& request) {
  json::object out = test::describe(request.chat);
  json::array offered;
  for (const auto& tool : request.chat.generate.tools) offered.push_back(json::value(tool.name));
  out["offered"] = std::move(offered);
  json::object names;
  for (const auto& [local, tool] : request.tools) names[local] = json::array{tool.name_space, tool.name};
  out["names"] = std::move(names);
  return out;
}

TEST(ResponsesRequest, AnswersEveryCaseOfTheTable) {
  test::check_table("responses_requests.json", parse_responses_request, describe);
}

TEST(ResponsesRequest, EchoesWhatWasAsked) {
  const auto request = parse_responses_request(
      R"({"model":"m","input":"hi","instructions":"Be brief.","temperature":0.5,"metadata":{"a":"b"},)"
      R"("tools":[{"type":"function","name":"f"}],"max_output_tokens":5})");
  ASSERT_TRUE(request);
  const auto& echo = request->echo;
  EXPECT_EQ(echo.at("instructions"), "Be brief.");
  EXPECT_EQ(echo.at("temperature"), 0.5);
  EXPECT_EQ(to_json(echo.at("metadata")), R"({"a":"b"})");
  EXPECT_EQ(to_json(echo.at("tools")), R"([{"type":"function","name":"f"}])");
  EXPECT_EQ(echo.at("max_output_tokens"), 5);
  EXPECT_EQ(echo.at("store"), false);
  EXPECT_EQ(to_json(echo.at("text")), R"({"format":{"type":"text"}})");
}

TEST(LocalToolName, IsTheNameAloneWithoutANameSpace) {
  EXPECT_EQ(local_tool_name("", "refund"), "refund");
  EXPECT_EQ(local_tool_name("", std::string(128, 'a')), std::string(128, 'a'));
}

}  // namespace
}  // namespace gezel::api
