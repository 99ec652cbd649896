// Connections: kept, closed, counted and ended.
#include "http/listener.h"

#include <gmock/gmock.h>

#include "http/test_listener.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(ListenerTest, AnswersAndKeepsTheConnection) {
  talk([](Client& client) -> asio::awaitable<void> {
    for (int i = 0; i < 3; ++i) {
      const Answer answer = co_await client.ask(std::string(kHealth));
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(answer.body, kHealthBody);
      EXPECT_THAT(answer.head, HasSubstr("date: "));
      EXPECT_THAT(answer.head, HasSubstr("x-content-type-options: nosniff"));
    }
  });
}

TEST_F(ListenerTest, ClosesWhenAsked) {
  talk([](Client& client) -> asio::awaitable<void> {
    const Answer answer =
        co_await client.ask("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    EXPECT_THAT(answer.head, HasSubstr("connection: close"));
    EXPECT_TRUE(co_await client.closed());
  });
}

TEST_F(ListenerTest, AnswersPipelinedRequestsInOrder) {
  talk([](Client& client) -> asio::awaitable<void> {
    co_await client.send(std::string(kHealth) + request("GET", "/v1/models") + request("GET", "/nothing"));
    EXPECT_EQ((co_await client.read()).body, kHealthBody);
    EXPECT_THAT((co_await client.read()).body, StartsWith(R"({"object":"list")"));
    EXPECT_EQ((co_await client.read()).status, 404);
  });
}

TEST_F(ListenerTest, OverlooksALineEndBetweenRequests) {
  talk([](Client& client) -> asio::awaitable<void> {
    co_await client.send(std::string(kHealth) + "\r\n" + std::string(kHealth));
    EXPECT_EQ((co_await client.read()).status, 200);
    EXPECT_EQ((co_await client.read()).status, 200);
  });
}

TEST_F(ListenerTest, KeepsRequestsThatArriveDuringAStreamForLater) {
  inference.script->push(engine::Started{});
  talk([this](Client& client) -> asio::awaitable<void> {
    co_await client.send(chat_request(R"(,"stream":true)"));
    co_await client.wait_for("assistant");
    co_await client.send(std::string(kHealth));
    inference.script->push(text("x"));
    inference.script->push(done());
    EXPECT_THAT((co_await client.read()).body, HasSubstr("[DONE]"));
    EXPECT_EQ((co_await client.read()).body, kHealthBody);
  });
  EXPECT_FALSE(inference.script->cancelled);
}

TEST_F(ListenerTest, ARefusedRequestWithASmallBodyKeepsTheConnection) {
  talk([](Client& client) -> asio::awaitable<void> {
    EXPECT_EQ((co_await client.ask(request("POST", "/api/stop", "{}", "", "wrong"))).status, 401);
    EXPECT_EQ((co_await client.ask(std::string(kHealth))).status, 200);
  });
}

TEST_F(ListenerTest, AnswersHeadWithoutABody) {
  talk([](Client& client) -> asio::awaitable<void> {
    co_await client.send("HEAD /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    const std::string all = co_await client.read_to_end();
    EXPECT_THAT(all, HasSubstr(fmt::format("content-length: {}\r\n", kHealthBody.size())));
    EXPECT_TRUE(all.ends_with("\r\n\r\n"));
  });
}

TEST_F(ListenerTest, StreamsToOldClientsWithoutChunks) {
  for (const engine::Event& event : {engine::Event(engine::Started{}), engine::Event(done())}) {
    inference.script->push(event);
  }
  talk([](Client& client) -> asio::awaitable<void> {
    std::string old = chat_request(R"(,"stream":true)");
    old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
    co_await client.send(std::move(old));
    const std::string all = co_await client.read_to_end();
    EXPECT_THAT(all, Not(HasSubstr("chunked")));
    EXPECT_THAT(all, HasSubstr("\r\n\r\ndata: {"));
    EXPECT_TRUE(all.ends_with("data: [DONE]\n\n"));
  });
}

TEST_F(ListenerTest, ClosesTheOldestIdleConnectionWhenFull) {
  static constexpr std::size_t kLimit = 100;
  listen({.connections = kLimit});
  run([](ListenerTest& test) -> asio::awaitable<void> {
    std::vector<std::unique_ptr<Client>> clients;
    for (std::size_t i = 0; i < kLimit + 10; ++i) {
      clients.push_back(std::make_unique<Client>(test.loop));
      co_await clients.back()->connect(test.listener->port());
      EXPECT_EQ((co_await clients.back()->ask(std::string(kHealth))).status, 200);
      EXPECT_LE(test.listener->connections(), kLimit);
    }
    for (std::size_t i = 0; i < 10; ++i) EXPECT_TRUE(co_await clients[i]->closed()) << i;
    EXPECT_EQ((co_await clients[10]->ask(std::string(kHealth))).status, 200);
    clients.clear();
    co_await test.listener->close(Millis(2'000));
  }(*this));
}

TEST_F(ListenerTest, RefusesAConnectionWhenAllAreBusy) {
  inference.script->push(engine::Started{});
  talk(
      [this](Client& client) -> asio::awaitable<void> {
        co_await client.send(chat_request(R"(,"stream":true)"));
        co_await client.wait_for("assistant");
        Client second(loop);
        co_await second.connect(listener->port());
        const Answer answer = co_await second.read();
        EXPECT_EQ(answer.status, 429);
        EXPECT_THAT(answer.body, HasSubstr("slow_down"));
        EXPECT_THAT(answer.head, HasSubstr("retry-after: 1"));
        inference.script->push(done());
        EXPECT_THAT((co_await client.read()).body, HasSubstr("[DONE]"));
      },
      {.connections = 1});
}

TEST_F(ListenerTest, EndsStreamsWithTheirReasonWhenStopping) {
  inference.script->push(engine::Started{});
  talk([this](Client& client) -> asio::awaitable<void> {
    Client idle(loop);
    co_await idle.connect(listener->port());
    co_await idle.ask(std::string(kHealth));
    co_await client.send(chat_request(R"(,"stream":true)"));
    co_await client.wait_for("assistant");
    router->begin_stop();
    listener->stop_accepting();
    open.abort_all();
    co_await listener->close(Millis(2'000));
    EXPECT_TRUE(co_await idle.closed());
    const Answer answer = co_await client.read();
    EXPECT_THAT(answer.body, HasSubstr("shutting_down"));
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
    EXPECT_TRUE(co_await client.closed());
  });
}

TEST_F(ListenerTest, ForcesWhatDoesNotEndInTime) {
  inference.script->push(engine::Started{});
  talk([this](Client& client) -> asio::awaitable<void> {
    co_await client.send(chat_request(R"(,"stream":true)"));
    co_await client.wait_for("assistant");
    co_await listener->close(Millis(5));
    EXPECT_EQ(listener->connections(), 0U);
    EXPECT_TRUE(inference.script->cancelled);
    co_await client.read_to_end();
  });
}

TEST_F(ListenerTest, TakesAnExplicitPortOrFails) {
  listen();
  const std::uint16_t taken = listener->port();
  const auto explicit_port = Listener::bind(loop.get_executor(), taken, 1, *router, open, clock);
  ASSERT_FALSE(explicit_port);
  EXPECT_EQ(explicit_port.error().code, "port_in_use");
  EXPECT_THAT(explicit_port.error().message, HasSubstr(std::to_string(taken)));

  const auto preferred = Listener::bind(loop.get_executor(), std::nullopt, taken, *router, open, clock);
  ASSERT_TRUE(preferred);
  EXPECT_TRUE((*preferred)->fell_back());
  EXPECT_NE((*preferred)->port(), taken);
  EXPECT_NE((*preferred)->port(), 0);
  run(listener->close(Millis(2'000)));
}

}  // namespace
}  // namespace gezel::http::test
