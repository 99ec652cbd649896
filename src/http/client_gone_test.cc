// Clients that leave, that stop sending, that read slowly.
#include <gmock/gmock.h>

#include "base/bytes.h"
#include "http/test_listener.h"

namespace gezel::http::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(ListenerTest, AClientThatDropsItsConnectionCancelsItsGeneration) {
  for (const bool stream : {true, false}) {
    inference.script = std::make_shared<Script>(loop.get_executor());
    inference.script->push(engine::Started{});
    talk([&](Client& client) -> asio::awaitable<void> {
      co_await client.send(chat_request(stream ? R"(,"stream":true)" : ""));
      if (stream) co_await client.wait_for("assistant");
      co_await engine_is_asked(2);
      client.drop();
      co_await inference.script->bell.wait([&] { return inference.script->cancelled; });
    });
    EXPECT_TRUE(inference.script->destroyed);
  }
}

TEST_F(ListenerTest, AClientThatClosesInASilenceCancelsItsGeneration) {
  for (const bool stream : {true, false}) {
    for (const bool started : {true, false}) {
      inference.script = std::make_shared<Script>(loop.get_executor());
      if (started) inference.script->push(engine::Started{});
      talk([&](Client& client) -> asio::awaitable<void> {
        co_await client.send(chat_request(stream ? R"(,"stream":true)" : ""));
        if (stream && started) co_await client.wait_for("\n\n");
        co_await engine_is_asked(started ? 2 : 1);
        client.close();  // everything was read: the client's end is a FIN, not a reset
        co_await inference.script->bell.wait([&] { return inference.script->cancelled; });
      });
      EXPECT_TRUE(inference.script->destroyed);
    }
  }
}

TEST_F(ListenerTest, AClientThatOnlyStopsSendingIsAnswered) {
  for (const Kind kind : kKinds) {
    SCOPED_TRACE(kind.request());
    inference.script = std::make_shared<Script>(loop.get_executor());
    inference.script->push(engine::Started{});
    talk([&](Client& client) -> asio::awaitable<void> {
      co_await client.send(kind.request());
      client.half_close();
      co_await engine_is_asked(2);
      inference.script->push(text("Hello"));
      inference.script->push(done());
      const std::string answer = co_await client.read_to_end();
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
      // A stream's head may have left before the client's end was seen.
      EXPECT_THAT(answer, HasSubstr(kind.stream ? "data: [DONE]\n\n" : "connection: close\r\n"));
      EXPECT_THAT(answer, HasSubstr(R"("content":"Hello")"));
    });
    EXPECT_FALSE(inference.script->cancelled);
  }
}

TEST_F(ListenerTest, AClientThatStopsSendingInAStreamGetsTheRestOfIt) {
  inference.script->push(engine::Started{});
  talk([&](Client& client) -> asio::awaitable<void> {
    co_await client.send(chat_request(R"(,"stream":true)"));
    co_await engine_is_asked(2);
    client.half_close();
    inference.script->push(text("Hello"));
    co_await engine_is_asked(3);
    inference.script->push(done());
    const Answer answer = co_await client.read();
    EXPECT_THAT(answer.body, HasSubstr(R"("content":"Hello")"));
    EXPECT_THAT(answer.body, EndsWith("data: [DONE]\n\n"));
    EXPECT_TRUE(co_await client.closed());
  });
}

TEST_F(ListenerTest, ARefusalReachesAClientThatStoppedSending) {
  talk([&](Client& client) -> asio::awaitable<void> {
    co_await client.send(chat_request());
    client.half_close();
    co_await engine_is_asked(1);
    inference.script->push(engine::Failed{engine_failure("context-overflow", 400, "too long")});
    EXPECT_THAT(co_await client.read_to_end(), StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  });
}

TEST_F(ListenerTest, EveryPipelinedRequestOfAClientThatStoppedSendingIsAnswered) {
  for (int i = 0; i < 2; ++i) {
    inference.script->push(engine::Started{});
    inference.script->push(done());
  }
  talk([&](Client& client) -> asio::awaitable<void> {
    co_await client.send(chat_request() + chat_request() + std::string(kHealth));
    client.half_close();
    EXPECT_EQ((co_await client.read()).status, 200);
    EXPECT_EQ((co_await client.read()).status, 200);
    EXPECT_EQ((co_await client.read()).body, kHealthBody);
    EXPECT_TRUE(co_await client.closed());
  });
}

TEST_F(ListenerTest, AHalfRequestOfAClientThatStoppedSendingIsNotAnswered) {
  talk([&](Client& client) -> asio::awaitable<void> {
    std::string half = chat_request();
    half.pop_back();
    co_await client.send(std::move(half));
    client.half_close();
    EXPECT_TRUE(co_await client.closed());
  });
  EXPECT_FALSE(inference.last);
}

TEST_F(ListenerTest, ASlowReaderSlowsItsOwnGenerationOnly) {
  constexpr int kTexts = 64;
  inference.script->push(engine::Started{});
  for (int i = 0; i < kTexts; ++i) inference.script->push(text(std::string(kMiB, 'x')));
  inference.script->push(done());
  talk([&](Client& client) -> asio::awaitable<void> {
    co_await client.send(chat_request(R"(,"stream":true)"));
    // Meanwhile others are served, and the slow one gets no further than the kernel's buffers.
    Client other(loop);
    co_await other.connect(listener->port());
    int before = -1;
    while (before != inference.script->asked || before < 2) {
      before = inference.script->asked;
      EXPECT_EQ((co_await other.ask(std::string(kHealth))).status, 200);
    }
    EXPECT_LT(inference.script->asked, kTexts);
    other.close();
    const Answer answer = co_await client.read();
    EXPECT_GT(answer.body.size(), kTexts * kMiB);
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  });
}

TEST_F(ListenerTest, AClientThatReadsNothingForTooLongIsGone) {
  inference.script->push(engine::Started{});
  for (int i = 0; i < 64; ++i) inference.script->push(text(std::string(kMiB, 'x')));
  talk(
      [&](Client& client) -> asio::awaitable<void> {
        co_await client.send(chat_request(R"(,"stream":true)"));
        co_await inference.script->bell.wait([&] { return inference.script->cancelled; });
      },
      {.write_stall = Millis(5)});
}

}  // namespace
}  // namespace gezel::http::test
