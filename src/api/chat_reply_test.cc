#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "api/chat.h"
#include "api/json_text.h"
#include "base/json.h"

namespace gezel::api {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

ChatReplyHead make_head(bool include_usage = false) {
  return {"chatcmpl-1", 1700000000, "llama-cpp/q\"w", "gezel-1", include_usage};
}

json::object event(const std::string& frame) {
  EXPECT_THAT(frame, StartsWith("data: {"));
  EXPECT_THAT(frame, EndsWith("}\n\n"));
  EXPECT_EQ(frame.find('\n'), frame.size() - 2) << "one line";
  auto parsed = parse_json(frame.substr(6));
  EXPECT_TRUE(parsed) << frame;
  return parsed->as_object();
}

engine::Done make_done() {
  engine::Done done;
  done.reason = engine::FinishReason::length;
  done.usage = {.prompt_tokens = 12, .completion_tokens = 5, .cached_tokens = 8, .reasoning_tokens = 2};
  done.timings = {.cache_n = 8, .prompt_n = 4, .predicted_n = 5, .prompt_ms = 20, .predicted_ms = 100};
  return done;
}

TEST(ChatFrames, ShareTheirHead) {
  const ChatFrames frames(make_head());
  for (const auto& frame :
       {frames.opener(), frames.content("x", {}, false), frames.finish(make_done(), {})}) {
    const auto chunk = event(frame);
    EXPECT_EQ(chunk.at("id"), "chatcmpl-1");
    EXPECT_EQ(chunk.at("created"), 1700000000);
    EXPECT_EQ(chunk.at("model"), "llama-cpp/q\"w");
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_EQ(chunk.at("system_fingerprint"), "gezel-1");
    EXPECT_EQ(chunk.at("choices").at(0).at("index"), 0);
  }
}

TEST(ChatFrames, OpenWithTheRole) {
  const auto choice = event(ChatFrames(make_head()).opener()).at("choices").at(0);
  EXPECT_EQ(to_json(choice.at("delta")), R"({"role":"assistant","content":""})");
  EXPECT_TRUE(choice.at("finish_reason").is_null());
}

TEST(ChatFrames, EscapeWhatJsonRequires) {
  std::string text = "\"\\\n\r\t\b\f";
  text += '\x01';
  text += "é💡</s>";
  const auto chunk = event(ChatFrames(make_head()).content(text, {}, false));
  EXPECT_EQ(chunk.at("choices").at(0).at("delta").at("content").as_string(), text);
}

TEST(ChatFrames, HaveNoUsageKeyUnlessAsked) {
  const ChatFrames plain(make_head());
  for (const auto& frame : {plain.opener(), plain.content("x", {}, false), plain.finish(make_done(), {})}) {
    EXPECT_THAT(frame, Not(HasSubstr("\"usage\"")));
  }
  const ChatFrames with_usage(make_head(true));
  for (const auto& frame :
       {with_usage.opener(), with_usage.content("x", {}, false), with_usage.finish(make_done(), {})}) {
    EXPECT_TRUE(event(frame).at("usage").is_null());
  }
  const auto last = event(with_usage.usage(make_done()));
  EXPECT_TRUE(last.at("choices").as_array().empty());
  EXPECT_EQ(
      to_json(last.at("usage")),
      R"({"prompt_tokens":12,"completion_tokens":5,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":8},)"
      R"("completion_tokens_details":{"reasoning_tokens":2}})");
}

TEST(ChatFrames, FinishWithReasonAndTimings) {
  const auto chunk = event(ChatFrames(make_head()).finish(make_done(), {}));
  EXPECT_EQ(chunk.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_TRUE(chunk.at("choices").at(0).at("delta").as_object().empty());
  EXPECT_EQ(
      to_json(chunk.at("timings")),
      R"({"cache_n":8,"prompt_n":4,"prompt_ms":20,"prompt_per_second":200,"predicted_n":5,"predicted_ms":100,)"
      R"("predicted_per_second":50,"draft_n":0,"draft_n_accepted":0})");
}

TEST(ChatFrames, CarryLogprobsInOpenAiShape) {
  engine::TokenLogprob token{"é", "\xc3\xa9", -0.5F, {}};
  token.top = {token, {"x", "x", -std::numeric_limits<float>::infinity(), {}}};
  const auto chunk = event(ChatFrames(make_head()).content("é", {token}, true));
  EXPECT_EQ(to_json(chunk.at("choices").at(0).at("logprobs").at("content").at(0).at("bytes")), "[195,169]");
  const auto& top =
      chunk.at("choices").at(0).at("logprobs").at("content").at(0).at("top_logprobs").as_array();
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].at("token"), "é");
  EXPECT_EQ(top[1].at("logprob").to_number<double>(), -9999.0);
}

TEST(ChatFrames, ShowPrefillProgressInAnEmptyDelta) {
  engine::Progress progress{engine::Progress::Stage::prefill, 0, 512, 2048};
  const auto chunk = event(ChatFrames(make_head()).progress(progress, 128, 35));
  EXPECT_TRUE(chunk.at("choices").at(0).at("delta").as_object().empty());
  EXPECT_EQ(to_json(chunk.at("prompt_progress")),
            R"({"total":2048,"cache":128,"processed":512,"time_ms":35})");
}

TEST(ChatFrames, ReportFailureAsServerError) {
  const auto frame =
      event(chat_stream_error(invalid_request("context_length_exceeded", "too long", "messages")));
  EXPECT_EQ(
      to_json(frame),
      R"({"error":{"message":"too long","type":"server_error","code":"context_length_exceeded","param":"messages"}})");
}

TEST(ChatFrames, CarryReasoningBesideTheContent) {
  const auto chunk = event(ChatFrames(make_head()).reasoning("so \"it\" is"));
  EXPECT_EQ(to_json(chunk.at("choices").at(0).at("delta")), R"({"reasoning_content":"so \"it\" is"})");
}

TEST(ChatFrames, AnnounceACallAndThenItsArguments) {
  const ChatFrames frames(make_head());
  EXPECT_EQ(
      to_json(event(frames.call(1, "call_a", "add", "")).at("choices").at(0).at("delta")),
      R"({"tool_calls":[{"index":1,"id":"call_a","type":"function","function":{"name":"add","arguments":""}}]})");
  EXPECT_EQ(to_json(event(frames.call_arguments(1, "{\"a\"")).at("choices").at(0).at("delta")),
            R"({"tool_calls":[{"index":1,"function":{"arguments":"{\"a\""}}]})");
}

TEST(ChatReplies, SayWhatWasRepairedOnlyWhereThereIsSomething) {
  ChatMessage message;
  message.warnings = {"the tools were left out", "b"};
  message.repairs = {"add: quotes"};
  message.unparsed = {{"launch", "<x>"}};
  auto done = make_done();
  done.repetition = true;
  const auto finish = event(ChatFrames(make_head()).finish(done, message));
  EXPECT_EQ(to_json(finish.at("x_gezel")),
            R"({"warnings":["the tools were left out","b"],"repairs":["add: quotes"],)"
            R"("unparsed":[{"name":"launch","text":"<x>"}],"stop":"repetition"})");
  const auto whole = parse_json(chat_completion(make_head(), message, {}, false, done));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->at("x_gezel"), finish.at("x_gezel"));
  EXPECT_THAT(ChatFrames(make_head()).finish(make_done(), {}), Not(HasSubstr("x_gezel")));
  ChatMessage tuned;
  tuned.tuning_profile = "creative";
  EXPECT_EQ(to_json(event(ChatFrames(make_head()).finish(make_done(), tuned)).at("x_gezel")),
            R"({"tuning_profile":"creative"})");
  tuned.tuning_profile = "";
  EXPECT_EQ(to_json(event(ChatFrames(make_head()).finish(make_done(), tuned)).at("x_gezel")),
            R"({"tuning_profile":null})");
}

TEST(ChatReplies, EndWithToolCallsWhateverTheEngineSays) {
  ChatMessage message;
  message.calls = {{"call_a", "add", R"({"a":1})"}};
  const auto finish = event(ChatFrames(make_head()).finish(make_done(), message));
  EXPECT_EQ(finish.at("choices").at(0).at("finish_reason"), "tool_calls");
  const auto whole = parse_json(chat_completion(make_head(), message, {}, false, make_done()));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->at("choices").at(0).at("finish_reason"), "tool_calls");
  EXPECT_EQ(to_json(whole->at("choices").at(0).at("message").at("tool_calls")),
            R"([{"id":"call_a","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}])");
}

TEST(ChatCompletion, HoldsEverythingOfOneReply) {
  const auto parsed =
      parse_json(chat_completion(make_head(), ChatMessage{.content = "hello\n"}, {}, false, make_done()));
  ASSERT_TRUE(parsed);
  const auto& reply = parsed->as_object();
  EXPECT_EQ(reply.at("object"), "chat.completion");
  const auto& choice = reply.at("choices").at(0).as_object();
  EXPECT_EQ(to_json(choice.at("message")), R"({"role":"assistant","content":"hello\n","refusal":null})");
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(reply.at("usage").at("total_tokens"), 17);
  EXPECT_EQ(reply.at("usage").at("prompt_tokens_details").at("cached_tokens"), 8);
  EXPECT_EQ(reply.at("timings").at("predicted_per_second"), 50);
}

TEST(JsonNumber, IsShortAndAlwaysFinite) {
  const auto text = [](double number) {
    std::string out;
    append_json_number(out, number);
    return out;
  };
  EXPECT_EQ(text(0), "0");
  EXPECT_EQ(text(1.5), "1.5");
  EXPECT_EQ(text(100), "100");
  EXPECT_EQ(text(-0.0001), "0");
  EXPECT_EQ(text(std::numeric_limits<double>::quiet_NaN()), "0");
}

}  // namespace
}  // namespace gezel::api
