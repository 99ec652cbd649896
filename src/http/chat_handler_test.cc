#include <gmock/gmock.h>

#include "base/bytes.h"
#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ChatHandler : public RouterTest {
 protected:
  Script& script() { return *inference.script; }
  void push(std::initializer_list<engine::Event> events) {
    for (const auto& event : events) script().push(event);
  }
  // The events of a stream as words: "role", "text:...", "finish:...", "usage", "DONE", "keepalive",
  // "error:code".
  static std::vector<std::string> events(const std::string& body) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < body.size();) {
      const auto end = body.find("\n\n", at);
      if (end == std::string::npos) {
        words.push_back("unfinished: " + body.substr(at));
        break;
      }
      words.push_back(word(body.substr(at, end - at)));
      at = end + 2;
    }
    return words;
  }

 private:
  static std::string word(const std::string& frame) {
    if (frame == ": keepalive") return "keepalive";
    if (frame.starts_with(": ")) return "comment:" + frame.substr(2);
    if (frame == "data: [DONE]") return "DONE";
    const auto parsed = parse_json(std::string_view(frame).substr(6));
    if (!parsed) return "unreadable: " + frame;
    const auto& object = parsed->get_object();
    if (const auto* error = object_at(object, "error")) return "error:" + string_or(*error, "code");
    const auto& choices = object.at("choices").as_array();
    if (choices.empty()) return "usage";
    if (object.contains("prompt_progress")) return "progress";
    if (const auto* queue = object_at(object, "queue_progress"))
      return "queue:" + std::to_string(int_or(*queue, "ahead", -1)) + ":" + string_or(*queue, "reason");
    const auto& choice = choices[0].as_object();
    if (choice.at("finish_reason").is_string()) return "finish:" + string_or(choice, "finish_reason");
    const auto& delta = choice.at("delta").as_object();
    return delta.contains("role") ? "role" : "text:" + string_or(delta, "content");
  }
};

TEST_F(ChatHandler, WhatWasWrittenForACallIsKeptForTheCallerWhoGetsIt) {
  const std::string written = R"(<tool_call>{"name": "look", "arguments": {}}</tool_call>)";
  push({engine::Started{}, text(written), done()});
  const auto& response = send(chat(R"(,"tools":[{"type":"function","function":{"name":"look"}}])"));
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"tool_calls")"));
  ASSERT_EQ(inference.kept.size(), 1U);
  EXPECT_EQ(inference.kept[0].first, "default");
  EXPECT_EQ(inference.kept[0].second.calls.at(0).name, "look");
  EXPECT_EQ(inference.kept[0].second.sampled->text, written);
}

TEST_F(ChatHandler, StreamsInOrder) {
  push({engine::Started{}, text("Hel"), text("lo"), done()});
  const auto& response = send(chat(R"(,"stream":true)"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-type"), "text/event-stream");
  EXPECT_EQ(response.header("cache-control"), "no-cache");
  EXPECT_EQ(response.header("x-accel-buffering"), "no");
  EXPECT_THAT(events(response.body), ElementsAre("role", "text:Hel", "text:lo", "finish:stop", "DONE"));
  EXPECT_THAT(response.body, Not(HasSubstr("usage")));
  EXPECT_TRUE(response.ended);
}

TEST_F(ChatHandler, AddsUsageOnlyWhenAsked) {
  push({engine::Started{}, text("x"), done(engine::FinishReason::length)});
  const auto& response = send(chat(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_THAT(events(response.body), ElementsAre("role", "text:x", "finish:length", "usage", "DONE"));
  EXPECT_THAT(response.body, HasSubstr(R"("total_tokens":12)"));
}

TEST_F(ChatHandler, AnswersWhole) {
  push({engine::Started{}, text("Hel"), text("lo"), done()});
  const auto& response = send(chat());
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-type"), "application/json");
  const auto body = parse_json(response.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->at("choices").at(0).at("message").at("content"), "Hello");
  EXPECT_EQ(body->at("model"), "llama-cpp:m");
  EXPECT_EQ(body->at("created"), unix_seconds(clock.wall_now()));
  EXPECT_EQ(body->at("system_fingerprint"), "gezel-9.9");
  EXPECT_TRUE(body->as_object().contains("timings"));
}

TEST_F(ChatHandler, RefusesABadBodyBeforeAskingTheService) {
  EXPECT_EQ(send(post("/v1/chat/completions", "{")).status, 400);
  EXPECT_FALSE(inference.last);
}

TEST_F(ChatHandler, ReadsLargeBodiesToo) {
  push({engine::Started{}, done()});
  const auto& response = send(chat(R"(,"metadata":")" + std::string(2 * kMiB, 'x') + "\""));
  EXPECT_EQ(response.status, 200);
}

TEST_F(ChatHandler, GivesTheServiceTheAffinityKey) {
  push({engine::Started{}, done()});
  auto request = chat(R"(,"prompt_cache_key":"c")");
  request.headers.emplace_back("x-gezel-session", "s");
  send(std::move(request));
  EXPECT_EQ(inference.last->generate.session_key, "default:s");
}

TEST_F(ChatHandler, GivesTheServiceTheLaneAndHowLongItMayWait) {
  push({engine::Started{}, done()});
  auto request = chat();
  request.headers.emplace_back("x-gezel-lane", "ambient");
  request.headers.emplace_back("x-gezel-queue-timeout", "20");
  send(std::move(request));
  EXPECT_EQ(inference.last->generate.lane, prompt::Lane::background);
  EXPECT_TRUE(inference.last->generate.queue.ambient);
  EXPECT_EQ(inference.last->generate.queue.wait_limit, Millis(20'000));
}

TEST_F(ChatHandler, RefusesALaneThatIsNone) {
  auto request = chat();
  request.headers.emplace_back("x-gezel-lane", "fast");
  const auto& response = send(std::move(request));
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr(R"("param":"x-gezel-lane")"));
  EXPECT_FALSE(inference.last);
}

TEST_F(ChatHandler, AStreamThatWaitsSaysForWhat) {
  make_router({.commit = Millis(1), .keepalive = Millis(1)});
  using Stage = engine::Progress::Stage;
  push({engine::Progress{Stage::queued, 2, 0, 0, "waiting for\nGemma to finish, 2 ahead"}});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] {
    if (response.pieces.size() == 2) push({engine::Progress{Stage::queued, 1, 0, 0}});
    if (response.body.ends_with(": waiting for a place, 1 ahead\n\n") && script().events.empty())
      push({engine::Started{}, done()});
  };
  run(router->handle(chat(R"(,"stream":true)"), response));
  const auto words = events(response.body);
  EXPECT_THAT(words, testing::Contains("comment:waiting for Gemma to finish, 2 ahead"));
  EXPECT_THAT(words, testing::Contains("comment:waiting for a place, 1 ahead"));
  EXPECT_THAT(words, Not(testing::Contains(StartsWith("queue:"))));
}

TEST_F(ChatHandler, AStreamWithProgressHasWhatItWaitsForAsData) {
  make_router({.commit = Millis(1), .keepalive = Millis(0)});
  using Stage = engine::Progress::Stage;
  push({engine::Progress{Stage::queued, 2, 0, 0, "waiting for Gemma to finish, 2 ahead"}});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] {
    if (response.pieces.size() == 2)
      push({engine::Progress{Stage::queued, 1, 0, 0}, engine::Started{}, done()});
  };
  run(router->handle(chat(R"(,"stream":true,"return_progress":true)"), response));
  EXPECT_THAT(events(response.body),
              ElementsAre("role", "queue:2:waiting for Gemma to finish, 2 ahead",
                          "queue:1:waiting for a place, 1 ahead", "finish:stop", "DONE"));
}

TEST_F(ChatHandler, RefusalsKeepTheirStatusWhenStreaming) {
  inference.refusal = api::not_found("model_not_found", "no such model", "model");
  const auto& response = send(chat(R"(,"stream":true)"));
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body, HasSubstr("model_not_found"));
}

TEST_F(ChatHandler, FailuresBeforeTheStartKeepTheirStatus) {
  auto error = engine_failure("context-overflow", 400, "9000 tokens do not fit 8192");
  error.prompt_tokens = 9000;
  error.context_tokens = 8192;
  push({engine::Progress{}, engine::Failed{error}});
  const auto& response = send(chat(R"(,"stream":true)"));
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr(R"("code":"context_length_exceeded")"));
  EXPECT_THAT(response.body, HasSubstr(R"("n_prompt_tokens":9000,"n_ctx":8192)"));
}

TEST_F(ChatHandler, FailuresAfterTheStartEndTheStreamWithAnError) {
  push({engine::Started{}, text("Hel"), engine::Failed{engine_failure("engine-crashed", 502, "signal 9")}});
  const auto& response = send(chat(R"(,"stream":true)"));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(events(response.body), ElementsAre("role", "text:Hel", "error:engine_crashed", "DONE"));
  EXPECT_THAT(response.body, HasSubstr("signal 9"));
  EXPECT_TRUE(response.ended);
}

TEST_F(ChatHandler, FailuresOfAWholeAnswerAreErrors) {
  push({engine::Started{}, text("Hel"), engine::Failed{engine_failure("engine-crashed", 502, "signal 9")}});
  EXPECT_EQ(send(chat()).status, 502);
}

TEST_F(ChatHandler, AnExceptionInAStreamEndsItWithAnError) {
  make_router({.commit = Millis(1)});
  push({engine::Started{}});
  RecordedResponse response(loop.get_executor());
  response.on_write = [this] {
    script().throws = true;
    script().push(text("x"));
  };
  run(router->handle(chat(R"(,"stream":true)"), response));
  EXPECT_THAT(response.body, HasSubstr("internal_error"));
  EXPECT_THAT(response.body, Not(HasSubstr("secret")));
  EXPECT_THAT(response.body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(ChatHandler, CommitsTheStatusWhenTheEngineIsSilentForLong) {
  make_router({.commit = Millis(1), .keepalive = Millis(0)});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] {
    if (response.pieces.size() == 1)
      push({engine::Failed{engine_failure("capacity-denied", 503, "too big")}});
  };
  run(router->handle(chat(R"(,"stream":true)"), response));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(events(response.body), ElementsAre("role", "error:capacity_denied", "DONE"));
}

TEST_F(ChatHandler, CommitsAlsoWhileTheServiceIsStillResolving) {
  make_router({.commit = Millis(1), .keepalive = Millis(0)});
  inference.hold_accept = true;
  push({engine::Started{}, text("x"), done()});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] { inference.accept(); };
  run(router->handle(chat(R"(,"stream":true)"), response));
  EXPECT_THAT(events(response.body), ElementsAre("role", "text:x", "finish:stop", "DONE"));
}

TEST_F(ChatHandler, FillsSilenceWithComments) {
  make_router({.keepalive = Millis(1)});
  push({engine::Started{}});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] {
    if (response.pieces.size() == 3) push({done()});
  };
  run(router->handle(chat(R"(,"stream":true)"), response));
  const auto words = events(response.body);
  ASSERT_GE(words.size(), 5U);
  EXPECT_EQ(words[0], "role");
  EXPECT_EQ(words[1], "keepalive");
  EXPECT_EQ(words[2], "keepalive");
  EXPECT_THAT(response.body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(ChatHandler, ShowsPrefillProgressOnlyWhenAsked) {
  const engine::Progress progress{engine::Progress::Stage::prefill, 0, 5, 10};
  push({engine::Started{}, progress, done()});
  EXPECT_THAT(events(send(chat(R"(,"stream":true,"return_progress":true)")).body),
              ElementsAre("role", "progress", "finish:stop", "DONE"));
  push({engine::Started{}, progress, done()});
  EXPECT_THAT(events(send(chat(R"(,"stream":true)")).body), ElementsAre("role", "finish:stop", "DONE"));
}

TEST_F(ChatHandler, EndsATurnThatTakesTooLong) {
  make_router({.turn_limit = Millis(1)});
  push({engine::Started{}});
  const auto& response = send(chat());
  EXPECT_EQ(response.status, 504);
  EXPECT_THAT(response.body, HasSubstr("turn_timeout"));
  EXPECT_TRUE(script().cancelled);
}

TEST_F(ChatHandler, CancelsTheGenerationWhenTheClientGoes) {
  push({engine::Started{}, text("Hel")});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] {
    if (response.pieces.size() == 2) response.cancel(api::CancelReason::client_gone);
  };
  run(router->handle(chat(R"(,"stream":true)"), response));
  EXPECT_TRUE(script().cancelled);
  EXPECT_TRUE(script().destroyed);
  EXPECT_EQ(response.pieces.size(), 2U) << "nothing is written to a client that is gone";
}

TEST_F(ChatHandler, CancelsAWholeAnswerWhenTheClientGoes) {
  push({engine::Started{}, text("Hel")});
  RecordedResponse response(loop.get_executor());
  asio::steady_timer soon(loop, std::chrono::seconds(0));
  soon.async_wait([&](auto) { response.cancel(api::CancelReason::client_gone); });
  run(router->handle(chat(), response));
  EXPECT_TRUE(script().cancelled);
  EXPECT_FALSE(response.started());
}

TEST_F(ChatHandler, CancelsARequestThatTheServiceHasNotAcceptedYet) {
  inference.hold_accept = true;
  RecordedResponse response(loop.get_executor());
  asio::steady_timer soon(loop, std::chrono::seconds(0));
  soon.async_wait([&](auto) {
    response.cancel(api::CancelReason::client_gone);
    inference.accept();
  });
  run(router->handle(chat(), response));
  EXPECT_TRUE(script().destroyed);
  EXPECT_FALSE(response.started());
}

TEST_F(ChatHandler, StoppingEndsAStreamWithItsReason) {
  push({engine::Started{}});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] {
    if (response.pieces.size() == 1) response.cancel(api::CancelReason::stopping);
  };
  run(router->handle(chat(R"(,"stream":true)"), response));
  EXPECT_THAT(events(response.body), ElementsAre("role", "error:shutting_down", "DONE"));
  EXPECT_TRUE(script().cancelled);
}

TEST_F(ChatHandler, StoppingBeforeTheStartIsAStatus) {
  RecordedResponse response(loop.get_executor());
  asio::steady_timer soon(loop, std::chrono::seconds(0));
  soon.async_wait([&](auto) { response.cancel(api::CancelReason::stopping); });
  run(router->handle(chat(R"(,"stream":true)"), response));
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("shutting_down"));
}

TEST_F(ChatHandler, AsksForTheNextEventOnlyWhenTheLastIsWritten) {
  push({engine::Started{}, text("a"), text("b"), text("c"), done()});
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] { response.blocked = response.pieces.size() == 1; };
  asio::steady_timer later(loop, Millis(5));
  int asked_while_blocked = -1;
  later.async_wait([&](auto) {
    asked_while_blocked = script().asked;
    response.blocked = false;
    response.bell.ring();
  });
  run(router->handle(chat(R"(,"stream":true)"), response));
  EXPECT_EQ(asked_while_blocked, 2) << "started and the text that waits for the client";
  EXPECT_THAT(events(response.body),
              ElementsAre("role", "text:a", "text:b", "text:c", "finish:stop", "DONE"));
}

}  // namespace
}  // namespace gezel::http::test
