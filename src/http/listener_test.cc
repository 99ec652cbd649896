#include "http/listener.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "base/bytes.h"
#include "http/port_probe.h"
#include "http/test_support.h"
#include "http/wire.h"

namespace gezel::http::test {
namespace {

using asio::ip::tcp;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kHealth = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
constexpr std::string_view kHealthBody = R"({"ok":true,"version":"9.9"})";

struct Answer {
  int status = 0;  // 0: the connection ended
  std::string head;
  std::string body;
};

// A client that reads answers as they come, on the same loop as the server.
class Client {
 public:
  explicit Client(asio::io_context& loop) : socket_(loop) {}

  asio::awaitable<void> connect(std::uint16_t port) {
    const auto [error] = co_await socket_.async_connect({asio::ip::address_v4::loopback(), port}, kQuietly);
    EXPECT_FALSE(error) << error.message();
  }
  // False: the server does not take it any more.
  asio::awaitable<bool> send(std::string bytes) {
    const auto [error, count] = co_await asio::async_write(socket_, asio::buffer(bytes), kQuietly);
    co_return !error;
  }
  asio::awaitable<Answer> read() {
    Answer answer;
    std::size_t end = std::string::npos;
    while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
      if (!co_await more()) co_return Answer{};
    }
    answer.head = pending_.substr(0, end + 2);
    pending_.erase(0, end + 4);
    answer.status = std::stoi(answer.head.substr(9, 3));
    const auto length = answer.head.find("content-length: ");
    if (length != std::string::npos) {
      const std::size_t size = std::stoul(answer.head.substr(length + 16));
      while (pending_.size() < size && co_await more()) {
      }
      answer.body = pending_.substr(0, size);
      pending_.erase(0, size);
    } else if (answer.head.find("transfer-encoding: chunked") != std::string::npos) {
      co_await read_chunks(answer.body);
    }
    co_return answer;
  }
  asio::awaitable<Answer> ask(std::string request) {
    co_await send(std::move(request));
    co_return co_await read();
  }
  // Everything until the server closes.
  asio::awaitable<std::string> read_to_end() {
    while (co_await more()) {
    }
    co_return std::exchange(pending_, {});
  }
  asio::awaitable<bool> closed() { co_return (co_await read_to_end()).empty(); }
  asio::awaitable<void> wait_for(std::string_view text) {
    while (pending_.find(text) == std::string::npos && co_await more()) {
    }
  }
  void drop() {
    boost::system::error_code ignored;
    // A reset rather than an orderly end.
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
  }
  // All is said, and the answer is still read: what `nc -N` does.
  void half_close() { socket_.shutdown(tcp::socket::shutdown_send); }
  void close() { socket_.close(); }

 private:
  asio::awaitable<bool> more() {
    char piece[16 * 1024];
    const auto [error, count] = co_await socket_.async_read_some(asio::buffer(piece), kQuietly);
    pending_.append(piece, count);
    co_return !error;
  }
  asio::awaitable<void> read_chunks(std::string& body) {
    for (;;) {
      std::size_t line = std::string::npos;
      while ((line = pending_.find("\r\n")) == std::string::npos) {
        if (!co_await more()) co_return;
      }
      const std::size_t size = std::stoul(pending_.substr(0, line), nullptr, 16);
      while (pending_.size() < line + 2 + size + 2) {
        if (!co_await more()) co_return;
      }
      body += pending_.substr(line + 2, size);
      pending_.erase(0, line + 2 + size + 2);
      if (size == 0) co_return;
    }
  }

  tcp::socket socket_;
  std::string pending_;
};

std::string request(std::string_view method, std::string_view target, std::string_view body = "",
                    std::string_view headers = "", std::string_view token = "client") {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n{}",
                                 method, target, token, headers);
  if (!body.empty()) text += fmt::format("content-length: {}\r\n", body.size());
  return text + "\r\n" + std::string(body);
}
std::string chat_request(std::string_view extra = "") {
  return request("POST", "/v1/chat/completions",
                 fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"hi"}}]{}}})", extra));
}

class ListenerTest : public RouterTest {
 public:
  void listen(ListenerLimits limits = {}) {
    auto bound = Listener::bind(loop.get_executor(), 0, 0, *router, open, clock, limits);
    ASSERT_TRUE(bound) << bound.error().message;
    listener = std::move(*bound);
    listener->start();
  }
  // Runs a conversation of one client, then closes the listener.
  template <class F>
  void talk(F conversation, ListenerLimits limits = {}) {
    listen(limits);
    run([](ListenerTest& test, F& converse) -> asio::awaitable<void> {
      Client client(test.loop);
      co_await client.connect(test.listener->port());
      co_await converse(client);
      client.close();
      co_await test.listener->close(Millis(2'000));
      EXPECT_EQ(test.listener->connections(), 0U);
      EXPECT_EQ(test.open.size(), 0U);
    }(*this, conversation));
  }

  // The engine was asked so many times for its next event, and has none.
  asio::awaitable<void> engine_is_asked(int times) {
    const auto script = inference.script;
    co_await script->bell.wait([&] {
      if (script->asked < times) asio::post(loop, [script] { script->bell.ring(); });
      return script->asked >= times;
    });
  }
  // A new request for each kind of answer and of protocol.
  struct Kind {
    bool stream, old;
    std::string request() const {
      std::string text = chat_request(stream ? R"(,"stream":true)" : "");
      if (old) text.replace(text.find("HTTP/1.1"), 8, "HTTP/1.0");
      return text;
    }
  };
  static constexpr Kind kKinds[] = {{false, false}, {true, false}, {false, true}, {true, true}};

  OpenRequests open{loop.get_executor()};
  std::unique_ptr<Listener> listener;
};

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

TEST_F(ListenerTest, RefusesWhatIsNotHttp) {
  for (const char* garbage : {"hello\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET  HTTP/1.1\r\nhost: a\r\n\r\n",
                              "GET / HTTP/1.1\r\nbad header\r\n\r\n", "\x16\x03\x01\x02"}) {
    talk([garbage](Client& client) -> asio::awaitable<void> {
      const Answer answer = co_await client.ask(garbage);
      EXPECT_EQ(answer.status, 400) << garbage;
      EXPECT_THAT(answer.body, HasSubstr("invalid_request"));
      EXPECT_TRUE(co_await client.closed());
    });
  }
}

TEST_F(ListenerTest, RefusesAmbiguousBodies) {
  for (const char* headers :
       {"content-length: 5\r\ntransfer-encoding: chunked\r\n", "transfer-encoding: gzip\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n", "content-length: -1\r\n"}) {
    talk([headers](Client& client) -> asio::awaitable<void> {
      EXPECT_EQ((co_await client.ask(request("POST", "/api/stop", "", headers))).status, 400) << headers;
      EXPECT_TRUE(co_await client.closed());
    });
  }
}

TEST_F(ListenerTest, LimitsTheHead) {
  const std::string long_value(33 * kKiB, 'x');
  std::string many, allowed;
  for (int i = 0; i < 101; ++i) many += fmt::format("x-{}: 1\r\n", i);
  for (int i = 0; i < 98; ++i) allowed += fmt::format("x-{}: 1\r\n", i);  // and host, authorization
  talk([&](Client& client) -> asio::awaitable<void> {
    EXPECT_EQ((co_await client.ask(request("GET", "/health", "", allowed))).status, 200);
    const Answer answer = co_await client.ask(request("GET", "/health", "", many));
    EXPECT_EQ(answer.status, 431);
    EXPECT_THAT(answer.body, HasSubstr("headers_too_large"));
    EXPECT_TRUE(co_await client.closed());
  });
  talk([&](Client& client) -> asio::awaitable<void> {
    EXPECT_EQ((co_await client.ask(request("GET", "/health", "", "x-long: " + long_value + "\r\n"))).status,
              431);
  });
  talk([&](Client& client) -> asio::awaitable<void> {
    EXPECT_EQ((co_await client.ask("GET /" + long_value)).status, 431)
        << "without waiting for the end of the line";
  });
}

TEST_F(ListenerTest, DoesNotWaitLongForAHead) {
  talk(
      [](Client& client) -> asio::awaitable<void> {
        const Answer answer = co_await client.ask("GET /health HTTP/1.1\r\nhost:");
        EXPECT_EQ(answer.status, 408);
        EXPECT_THAT(answer.body, HasSubstr("request_timeout"));
        EXPECT_TRUE(co_await client.closed());
      },
      {.header_wait = Millis(5)});
}

TEST_F(ListenerTest, ClosesAnIdleConnectionWithoutAWord) {
  talk(
      [](Client& client) -> asio::awaitable<void> {
        co_await client.ask(std::string(kHealth));
        EXPECT_TRUE(co_await client.closed());
      },
      {.keep_alive = Millis(5)});
}

TEST_F(ListenerTest, DoesNotWaitLongForABody) {
  talk(
      [](Client& client) -> asio::awaitable<void> {
        const Answer answer =
            co_await client.ask(request("POST", "/api/stop", "", "content-length: 100\r\n") + "{\"model\":");
        EXPECT_EQ(answer.status, 408);
        EXPECT_TRUE(co_await client.closed());
      },
      {.body_stall = Millis(5)});
}

TEST_F(ListenerTest, DoesNotWaitForABodyThatNeverGetsAnywhere) {
  talk(
      [](Client& client) -> asio::awaitable<void> {
        const Answer answer =
            co_await client.ask(request("POST", "/api/stop", "", "content-length: 100\r\n") + "{\"model\":");
        EXPECT_EQ(answer.status, 408);
        EXPECT_THAT(answer.body, HasSubstr("must average 1024 bytes per second"));
        EXPECT_TRUE(co_await client.closed());
      },
      {.body_stall = Millis(3'600'000), .body_grace = Millis(5)});
}

TEST_F(ListenerTest, RefusesALargeBodyBeforeReadingIt) {
  talk([](Client& client) -> asio::awaitable<void> {
    const std::string body(3 * kMiB, ' ');
    co_await client.send(request("POST", "/api/stop", body));
    const Answer answer = co_await client.read();
    EXPECT_EQ(answer.status, 413);
    EXPECT_THAT(answer.body, HasSubstr("request_too_large"));
    EXPECT_TRUE(co_await client.closed());
  });
}

TEST_F(ListenerTest, RefusesALargeBodyOfUnknownLengthWhileReadingIt) {
  talk([](Client& client) -> asio::awaitable<void> {
    std::string chunks = request("POST", "/api/stop", "", "transfer-encoding: chunked\r\n");
    for (int i = 0; i < 40; ++i) chunks += "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
    co_await client.send(std::move(chunks));
    EXPECT_EQ((co_await client.read()).status, 413);
    EXPECT_TRUE(co_await client.closed());
  });
}

TEST_F(ListenerTest, BoundsChunkHeadersAndTrailers) {
  for (const char* start : {"1;x=", "0\r\nx: "}) {
    talk([start](Client& client) -> asio::awaitable<void> {
      co_await client.send(request("POST", "/api/stop", "", "transfer-encoding: chunked\r\n") + start +
                           std::string(200 * kKiB, 'x'));
      EXPECT_EQ((co_await client.read()).status, 400);
    });
  }
}

TEST_F(ListenerTest, ReadsChunkedBodies) {
  talk([](Client& client) -> asio::awaitable<void> {
    const Answer answer =
        co_await client.ask(request("POST", "/api/stop", "", "transfer-encoding: chunked\r\n") +
                            "9\r\n{\"model\":\r\n4\r\n\"m\"}\r\n0\r\n\r\n");
    EXPECT_EQ(answer.body, R"({"stopped":"m","force":false})");
    EXPECT_EQ((co_await client.ask(std::string(kHealth))).status, 200);
  });
}

TEST_F(ListenerTest, InvitesABodyThatWaitsForIt) {
  talk([](Client& client) -> asio::awaitable<void> {
    const std::string head = "content-length: 13\r\nexpect: 100-continue\r\n";
    EXPECT_EQ((co_await client.ask(request("POST", "/api/stop", "", head))).status, 100);
    EXPECT_EQ((co_await client.ask(R"({"model":"m"})")).status, 200);
    EXPECT_EQ((co_await client.ask(request("POST", "/api/stop", "", head, "wrong"))).status, 401)
        << "no invitation";
    EXPECT_TRUE(co_await client.closed());
  });
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

TEST_F(ListenerTest, ProbeRecognisesAnotherDaemon) {
  listen();
  run([](ListenerTest& test) -> asio::awaitable<void> {
    EXPECT_EQ(co_await probe_port(test.listener->port()), Occupant::gezel);
    co_await test.listener->close(Millis(2'000));
    EXPECT_EQ(co_await probe_port(test.listener->port()), Occupant::unknown);
  }(*this));
}

TEST(PortProbe, TellsOccupantsApart) {
  EXPECT_EQ(classify_occupant("HTTP/1.1 200 OK\r\n\r\n{\"ok\":true}"), Occupant::gezel);
  EXPECT_EQ(classify_occupant("HTTP/1.1 401 Unauthorized\r\n\r\n"), Occupant::gezel);
  EXPECT_EQ(classify_occupant("HTTP/1.1 404 Not Found\r\n\r\n"), Occupant::foreign);
  EXPECT_EQ(classify_occupant("SSH-2.0"), Occupant::unknown);
  EXPECT_EQ(classify_occupant(""), Occupant::unknown);
}

}  // namespace
}  // namespace gezel::http::test
