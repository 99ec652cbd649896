// What becomes of an answer with calls when the conversation comes back.
#include <gtest/gtest.h>

#include "service/test_service.h"

namespace gezel::service {
namespace {

class Replay : public testing::ServiceTest {
 protected:
  void SetUp() override {
    install("a");
    install("b");
  }
  static api::ChatMessage answer() {
    api::ChatMessage message;
    message.calls = {{"call_1", "look", R"({"at":1})", "functions.look:0"}, {"call_2", "look", R"({"at":2})", ""}};
    message.sampled = prompt::Sampled{"<raw>", 0, false};
    return message;
  }
  static prompt::Message result(std::string id) {
    prompt::Message message;
    message.role = prompt::Role::tool;
    message.tool_call_id = std::move(id);
    return message;
  }
  // The messages that the engine got for a conversation with these calls.
  std::vector<prompt::Message> sent(std::string caller, const std::vector<prompt::ToolCall>& calls,
                                    const std::string& model = "a") {
    api::ChatRequest request;
    request.model = model;
    request.caller = std::move(caller);
    prompt::Message assistant;
    assistant.role = prompt::Role::assistant;
    assistant.tool_calls = calls;
    request.generate.messages = {prompt::Message{}, assistant, result("call_1"), result("call_2")};
    EXPECT_TRUE(wait(service->chat(request)));
    return engine_of("llama-cpp:" + model)->last.messages;
  }
  std::int64_t counted(std::string_view member) {
    engine_of("llama-cpp:a")->stats = "{}";
    const auto stats = wait(service->worker_stats("a"));
    return stats ? stats->at("replay").at(member).to_number<std::int64_t>() : -1;
  }
  const std::vector<prompt::ToolCall> calls = {{"call_1", "look", R"({"at":1})"}, {"call_2", "look", R"({"at":2})"}};
};

TEST_F(Replay, AnAnswerComesBackAsItWasSampledWithTheModelsIds) {
  start();
  settle();
  wait(service->keep_calls("me", "a", answer()));
  const auto messages = sent("me", calls);
  ASSERT_TRUE(messages[1].sampled);
  EXPECT_EQ(messages[1].sampled->text, "<raw>");
  EXPECT_EQ(messages[1].tool_calls[0].id, "functions.look:0");
  EXPECT_EQ(messages[1].tool_calls[1].id, "call_2");
  EXPECT_EQ(messages[2].tool_call_id, "functions.look:0");
  EXPECT_EQ(messages[3].tool_call_id, "call_2");
  EXPECT_EQ(counted("hits"), 1);
}

TEST_F(Replay, AnEditedCallIsRenderedAsItWasSent) {
  start();
  settle();
  wait(service->keep_calls("me", "a", answer()));
  auto edited = calls;
  edited[1].arguments = R"({"at":3})";
  const auto messages = sent("me", edited);
  EXPECT_FALSE(messages[1].sampled);
  EXPECT_EQ(messages[1].tool_calls[0].id, "call_1");
  EXPECT_EQ(messages[2].tool_call_id, "call_1");
  EXPECT_EQ(counted("misses"), 1);
}

TEST_F(Replay, NeitherAnotherCallerNorAnotherModelGetsIt) {
  start();
  settle();
  wait(service->keep_calls("me", "a", answer()));
  EXPECT_FALSE(sent("somebody", calls)[1].sampled);
}

TEST_F(Replay, ItSurvivesARestart) {
  start();
  settle();
  wait(service->keep_calls("me", "a", answer()));
  wait(service->stop());
  start();
  settle();
  EXPECT_TRUE(sent("me", calls)[1].sampled);
}

TEST_F(Replay, CanBeSwitchedOff) {
  options.replay_store = false;
  start();
  settle();
  wait(service->keep_calls("me", "a", answer()));
  EXPECT_FALSE(sent("me", calls)[1].sampled);
  EXPECT_FALSE(fs::exists(home.path() / "replay"));
}

TEST_F(Replay, AStoreThatCannotBeOpenedCostsOnlyTheReuse) {
  home.write("replay", "a file where the folder should be");
  start();
  settle();
  wait(service->keep_calls("me", "a", answer()));
  EXPECT_FALSE(sent("me", calls)[1].sampled);
}

}  // namespace
}  // namespace gezel::service
