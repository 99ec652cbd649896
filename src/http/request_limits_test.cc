// What a connection refuses, and how long it waits for the rest of a request.
#include <gmock/gmock.h>

#include "base/bytes.h"
#include "http/test_listener.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace gezel::http::test
