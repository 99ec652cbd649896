#include "api/responses_form.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ResponsesFormTest : public testing::Test {
 protected:
  ResponsesForm form(std::string_view extra = "") {
    auto request = parse_responses_request(R"({"model":"m","input":"hi")" + std::string(extra) + "}");
    EXPECT_TRUE(request) << request.error().message;
    return {clock, entropy, "m", std::move(*request)};
  }
  static engine::Done done(engine::FinishReason reason = engine::FinishReason::stop) {
    engine::Done out;
    out.reason = reason;
    out.usage = {.prompt_tokens = 7, .completion_tokens = 2, .cached_tokens = 3, .reasoning_tokens = 1};
    return out;
  }
  static turn::Events call(std::vector<std::string_view> fragments, std::string name = "f") {
    turn::Events events{turn::CallBegin{0, "call_1", std::move(name)}};
    for (const auto fragment : fragments)
      events.emplace_back(turn::CallArgumentsDelta{0, std::string(fragment)});
    events.emplace_back(turn::CallEnd{0, turn::CallOutcome::complete});
    return events;
  }
  static ChatMessage message_with_call() {
    ChatMessage message;
    message.calls.push_back({"call_1", "f", "{}", ""});
    return message;
  }
  // The events of a stream; their numbers must have no gap.
  std::vector<json::object> events(std::string_view stream) {
    std::vector<json::object> out;
    for (std::size_t at = 0; at < stream.size();) {
      const auto end = stream.find("\n\n", at);
      const auto frame = stream.substr(at, end - at);
      const auto data = frame.find("\ndata: ");
      auto parsed = parse_json(frame.substr(data + 7));
      EXPECT_TRUE(parsed) << frame;
      json::object event = parsed->as_object();
      EXPECT_EQ(frame.substr(0, data), "event: " + string_or(event, "type"));
      EXPECT_EQ(int_or(event, "sequence_number", -1), next_++);
      out.push_back(std::move(event));
      at = end + 2;
    }
    return out;
  }
  std::vector<std::string> types(std::string_view stream) {
    std::vector<std::string> out;
    for (const auto& event : events(stream)) {
      std::string type = string_or(event, "type");
      out.push_back(type.starts_with("response.") ? type.substr(9) : type);
    }
    return out;
  }

  ManualClock clock;
  SystemEntropy entropy;

 private:
  std::int64_t next_ = 0;
};

TEST_F(ResponsesFormTest, Case28_OneTextIsNineEvents) {
  auto answer = form();
  std::string stream = answer.opener() + answer.delta({turn::ContentDelta{"Hi"}}, {});
  stream += answer.end({}, {.content = "Hi"}, done());
  EXPECT_THAT(types(stream), ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                                         "output_text.delta", "output_text.done", "content_part.done",
                                         "output_item.done", "completed"));
  EXPECT_THAT(stream, Not(HasSubstr("[DONE]")));
}

TEST_F(ResponsesFormTest, Case29_OneCallIsEightEvents) {
  auto answer = form(R"(,"tools":[{"type":"function","name":"f"}])");
  std::string stream = answer.opener() + answer.delta(call({"{\"a\"", ":1}"}), {});
  stream += answer.end({}, message_with_call(), done());
  const auto list = events(stream);
  ASSERT_EQ(list.size(), 8U);
  EXPECT_EQ(list[2].at("item").at("arguments"), "");
  EXPECT_EQ(list[5].at("arguments"), R"({"a":1})");
  EXPECT_EQ(list[6].at("item").at("status"), "completed");
  EXPECT_EQ(list[7].at("response").at("output").at(0), list[6].at("item"));
}

TEST_F(ResponsesFormTest, Case30_ACallHasTheNamesOfTheCaller) {
  auto answer = form(
      R"(,"tools":[{"type":"namespace","name":"billing","tools":[{"type":"function","name":"refund"}]}])");
  events(answer.opener());
  const auto list = events(answer.delta(call({"{}"}, "billing__refund"), {}));
  EXPECT_EQ(list.back().at("item").at("name"), "refund");
  EXPECT_EQ(list.back().at("item").at("namespace"), "billing");
}

TEST_F(ResponsesFormTest, Case32_ACustomCallIsShownWhole) {
  auto answer = form(R"(,"tools":[{"type":"custom","name":"f"}])");
  events(answer.opener());
  EXPECT_EQ(answer.delta({turn::CallBegin{0, "call_1", "f"}}, {}), "");
  EXPECT_EQ(answer.delta({turn::CallArgumentsDelta{0, R"({"input":"a\nb"})"}}, {}), "");
  const auto stream = answer.delta({turn::CallEnd{0, turn::CallOutcome::complete}}, {});
  const auto list = events(stream);
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].at("item").at("input"), "");
  EXPECT_EQ(list[1].at("delta"), "a\nb");
  EXPECT_EQ(list[2].at("input"), "a\nb");
  EXPECT_EQ(list[3].at("item").at("type"), "custom_tool_call");
}

TEST_F(ResponsesFormTest, Case32_ACustomCallWithoutInputFailsTheAnswer) {
  auto answer = form(R"(,"tools":[{"type":"custom","name":"f"}])");
  events(answer.opener());
  EXPECT_EQ(answer.delta(call({"{}"}), {}), "");
  ASSERT_TRUE(answer.fault());
  EXPECT_EQ(answer.fault()->code, "server_error");
  const auto list = events(answer.failure(*answer.fault(), "id"));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].at("type"), "error");
  EXPECT_EQ(list[1].at("type"), "response.failed");
  EXPECT_EQ(list[1].at("response").at("error").at("code"), "server_error");
}

TEST_F(ResponsesFormTest, Case36_AFailureLeavesWhatWasShownIncomplete) {
  auto answer = form();
  events(answer.opener() + answer.delta({turn::ContentDelta{"Hi"}}, {}));
  ApiError error = internal_error("/secret/path");
  const auto stream = answer.failure(error, "id");
  EXPECT_THAT(stream, Not(HasSubstr("secret")));
  const auto list = events(stream);
  EXPECT_EQ(list[2].at("item").at("status"), "incomplete");
  EXPECT_EQ(list[3].at("code"), "provider_error");
  EXPECT_EQ(list[4].at("response").at("status"), "failed");
  EXPECT_EQ(list[4].at("response").at("output_text"), "Hi");
}

TEST_F(ResponsesFormTest, Case37_ACutTextIsIncompleteAndACutCallIsNot) {
  auto text = form();
  text.opener();
  text.delta({turn::ContentDelta{"Hi"}}, {});
  const auto cut = text.end({}, {.content = "Hi"}, done(engine::FinishReason::length));
  EXPECT_THAT(cut, HasSubstr("event: response.incomplete\n"));
  EXPECT_THAT(cut, HasSubstr(R"("incomplete_details":{"reason":"max_output_tokens"})"));
  auto with_call = form(R"(,"tools":[{"type":"function","name":"f"}])");
  with_call.opener();
  EXPECT_THAT(with_call.end(call({"{}"}), message_with_call(), done(engine::FinishReason::length)),
              HasSubstr("event: response.completed\n"));
}

TEST_F(ResponsesFormTest, OneItemIsOpenAtATime) {
  auto answer = form(R"(,"tools":[{"type":"function","name":"f"}])");
  std::string stream = answer.opener() + answer.delta({turn::ContentDelta{"a"}}, {});
  stream += answer.delta(call({"{}"}), {}) + answer.delta({turn::ContentDelta{"b"}}, {});
  stream += answer.end({}, message_with_call(), done());
  const auto last = events(stream).back();
  const auto& output = last.at("response").at("output").as_array();
  ASSERT_EQ(output.size(), 3U);
  EXPECT_EQ(output[0].at("content").at(0).at("text"), "a");
  EXPECT_EQ(output[1].at("type"), "function_call");
  EXPECT_EQ(output[2].at("content").at(0).at("text"), "b");
  EXPECT_EQ(last.at("response").at("output_text"), "ab");
}

TEST_F(ResponsesFormTest, ReasoningIsASummaryInFrontOfTheText) {
  auto answer = form(R"(,"reasoning":{"summary":"auto"})");
  events(answer.opener());
  std::string stream = answer.delta({turn::ReasoningDelta{"hm"}, turn::ContentDelta{"Hi"}}, {});
  stream += answer.end({}, {.content = "Hi", .reasoning = "hm"}, done());
  const auto list = types(stream);
  EXPECT_THAT(std::vector(list.begin(), list.begin() + 6),
              ElementsAre("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
                          "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"));
}

TEST_F(ResponsesFormTest, SilenceIsFilledWithARealEvent) {
  auto answer = form(R"(,"instructions":"Be brief.","tools":[{"type":"function","name":"f"}])");
  events(answer.opener());
  const auto list = events(answer.keepalive(std::nullopt));
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].at("type"), "response.in_progress");
  EXPECT_TRUE(list[0].at("response").at("tools").as_array().empty());
  EXPECT_TRUE(list[0].at("response").at("instructions").is_null());
}

TEST_F(ResponsesFormTest, AWholeAnswerHasTheItemsOfAStreamedOne) {
  auto answer = form(R"(,"tools":[{"type":"function","name":"f"}])");
  ChatMessage message = message_with_call();
  message.content = "Hi";
  const auto parsed = parse_json(answer.whole(message, {}, done()));
  ASSERT_TRUE(parsed);
  const auto& response = parsed->as_object();
  EXPECT_EQ(response.at("object"), "response");
  EXPECT_EQ(response.at("status"), "completed");
  EXPECT_EQ(response.at("output").as_array().size(), 2U);
  EXPECT_EQ(response.at("output_text"), "Hi");
  EXPECT_EQ(to_json(response.at("usage")),
            R"({"input_tokens":7,"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":0},)"
            R"("output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":9})");
}

TEST_F(ResponsesFormTest, MoreItemsThanThereMayBeFailTheAnswer) {
  auto answer = form(R"(,"tools":[{"type":"function","name":"f"}])");
  answer.opener();
  for (std::size_t i = 0; i < ResponsesForm::kMaxItems; ++i) answer.delta(call({"{}"}), {});
  EXPECT_FALSE(answer.fault());
  answer.delta(call({"{}"}), {});
  ASSERT_TRUE(answer.fault());
  EXPECT_THAT(answer.fault()->message, HasSubstr("256"));
}

TEST_F(ResponsesFormTest, FailuresHaveTheCodesThatClientsActOn) {
  const auto code = [&](const ApiError& error) {
    auto answer = form();
    answer.opener();
    const auto stream = answer.failure(error, "");
    const auto at = stream.find(R"("code":")") + 8;
    return stream.substr(at, stream.find('"', at) - at);
  };
  EXPECT_EQ(code(invalid_request("context_length_exceeded", "too long")), "context_length_exceeded");
  ApiError denied = internal_error("");
  denied.code = "capacity_denied";
  EXPECT_EQ(code(denied), "server_is_overloaded");
  EXPECT_EQ(code(invalid_request("tokens_wrong", "wrong")), "invalid_prompt");
  EXPECT_EQ(code(internal_error("")), "provider_error");
}

}  // namespace
}  // namespace gezel::api
