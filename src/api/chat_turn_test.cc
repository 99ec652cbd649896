#include "api/chat_turn.h"

#include <gtest/gtest.h>

namespace gezel::api {
namespace {

class ChatTurnTest : public testing::Test {
 protected:
  // The message of an answer that says `text`, in pieces of a few bytes.
  ChatMessage answer(std::string_view text, engine::Started started = {}) {
    ChatTurn turn(request, {}, entropy);
    turn.start(started);
    for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(text.size(), 5)))
      turn.feed(text.substr(0, 5));
    return turn.finish({}).message;
  }
  ChatTurnTest() {
    request.generate.tools = {
        {"look",
         R"({"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}})"}};
  }
  ChatRequest request;
  SystemEntropy entropy;
};

TEST_F(ChatTurnTest, AnAnswerWithCallsIsKeptAsItWasWritten) {
  const std::string text = "So:\n<tool_call>\n{ \"name\":\"look\",  \"arguments\":{} }\n</tool_call>";
  const auto message = answer(text);
  ASSERT_EQ(message.calls.size(), 1u);
  ASSERT_TRUE(message.sampled);
  EXPECT_EQ(message.sampled->text, text);
  EXPECT_EQ(message.sampled->reasoning_bytes, 0u);
  EXPECT_FALSE(message.sampled->began_in_reasoning);
}

TEST_F(ChatTurnTest, WhereReasoningEndedIsKeptToo) {
  const std::string call = "<tool_call>{\"name\":\"look\",\"arguments\":{}}</tool_call>";
  struct Case {
    std::string reasoning;
    bool open;
  };
  for (const auto& [reasoning, open] :
       {Case{"<think>Hm.</think>\n\n", false}, Case{"Hm.</think>\n", true}, Case{"<think>\nHm.\n", false}}) {
    engine::Started started;
    started.reasoning_open = open;
    started.splits_reasoning = true;
    const auto message = answer(reasoning + call, started);
    ASSERT_EQ(message.calls.size(), 1u) << reasoning;
    ASSERT_TRUE(message.sampled) << reasoning;
    EXPECT_EQ(message.sampled->text, reasoning + call);
    EXPECT_EQ(message.sampled->reasoning_bytes, reasoning.size());
    EXPECT_EQ(message.sampled->began_in_reasoning, open);
  }
}

TEST_F(ChatTurnTest, TheTuningProfileIsToldWhereThereWasOneOrOneWasAskedFor) {
  EXPECT_FALSE(answer("Hi.").tuning_profile);
  engine::Started started;
  started.tuning_profile = "instruct";
  EXPECT_EQ(answer("Hi.", started).tuning_profile, "instruct");
  request.generate.tuning_profile = "creative";
  EXPECT_EQ(answer("Hi.", started).tuning_profile, "instruct") << "what stood in for it";
  EXPECT_EQ(answer("Hi.").tuning_profile, "") << "the model's own values";
}

TEST_F(ChatTurnTest, AnAnswerWithoutCallsIsNotKept) {
  EXPECT_FALSE(answer("Nothing to look at.").sampled);
}

TEST_F(ChatTurnTest, TheModelsOwnIdStaysBesideTheCall) {
  const auto message = answer(
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{}"
      "<|tool_call_end|><|tool_calls_section_end|>");
  ASSERT_EQ(message.calls.size(), 1u);
  EXPECT_TRUE(message.calls[0].id.starts_with("call_"));
  EXPECT_EQ(message.calls[0].engine_id, "functions.look:0");
}

}  // namespace
}  // namespace gezel::api
