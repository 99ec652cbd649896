#include "http/in_process.h"

#include <gmock/gmock.h>

#include "http/cleanup.h"
#include "http/test_support.h"
#include "http/wire.h"

namespace gezel::http::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InProcess : public RouterTest {
 protected:
  OpenRequests open{loop.get_executor()};
  InProcessTransport transport{loop.get_executor(), *router, open};
};

TEST_F(InProcess, GivesStatusHeadersAndBody) {
  run([&]() -> asio::awaitable<void> {
    const auto reply = co_await transport.call({"GET", "/api/ps", {}, "", false});
    EXPECT_EQ(reply->status(), 200);
    EXPECT_EQ(api::find_header(reply->headers(), "content-type"), "application/json");
    EXPECT_EQ(open.size(), 1U) << "the body is still unread";
    EXPECT_TRUE(open.holds_liveness());
    EXPECT_EQ(co_await reply->read_all(), R"({"models":[]})");
    EXPECT_TRUE(reply->complete());
    EXPECT_EQ(open.size(), 0U);
    EXPECT_FALSE(open.holds_liveness());
  }());
}

TEST_F(InProcess, ReadsAStreamPieceByPiece) {
  for (engine::Event event :
       {engine::Event(engine::Started{}), engine::Event(text("a")), engine::Event(done())}) {
    inference.script->push(event);
  }
  run([&]() -> asio::awaitable<void> {
    const auto reply = co_await transport.call(chat(R"(,"stream":true)"));
    EXPECT_EQ(reply->status(), 200);
    EXPECT_EQ(inference.script->asked, 1) << "the handler waits for its reader";
    const std::string body = co_await reply->read_all();
    EXPECT_THAT(body, HasSubstr(R"("content":"a")"));
    EXPECT_THAT(body, HasSubstr("[DONE]"));
    EXPECT_EQ(open.size(), 0U);
  }());
}

TEST_F(InProcess, LeavesAtOnceWithoutABody) {
  run([&]() -> asio::awaitable<void> {
    const auto reply = co_await transport.call({"OPTIONS", "/v1/models", {}, "", false});
    EXPECT_EQ(reply->status(), 204);
    EXPECT_EQ(open.size(), 0U);
  }());
}

TEST_F(InProcess, DestroyingAnUnreadAnswerCancelsIt) {
  inference.script->push(engine::Started{});
  run([&]() -> asio::awaitable<void> {
    auto reply = co_await transport.call(chat(R"(,"stream":true)"));
    reply.reset();
    EXPECT_EQ(open.size(), 0U);
  }());
  EXPECT_TRUE(inference.script->cancelled);
}

TEST_F(InProcess, AbortAllCancelsEveryOneReadOrNot) {
  inference.script->push(engine::Started{});
  inference.hold_accept = false;
  run([&]() -> asio::awaitable<void> {
    const auto unread = co_await transport.call({"GET", "/v1/models", {}, "", false});
    const auto stream = co_await transport.call(chat(R"(,"stream":true)"));
    EXPECT_EQ(open.size(), 2U);
    open.abort_all();
    EXPECT_EQ(open.size(), 0U);
    EXPECT_FALSE(open.holds_liveness());
    EXPECT_EQ(co_await stream->read(), std::nullopt);
    EXPECT_FALSE(stream->complete());
    EXPECT_EQ(co_await unread->read(), std::nullopt);
    open.abort_all();
  }());
  EXPECT_TRUE(inference.script->cancelled);
}

TEST_F(InProcess, AbortBeforeTheHeadIsShuttingDown) {
  inference.hold_accept = true;
  asio::steady_timer soon(loop, std::chrono::seconds(0));
  soon.async_wait([&](auto) {
    open.abort_all();
    inference.accept();
  });
  run([&]() -> asio::awaitable<void> {
    const auto reply = co_await transport.call(chat());
    EXPECT_EQ(reply->status(), 503);
    EXPECT_THAT(co_await reply->read_all(), HasSubstr("shutting_down"));
  }());
}

TEST_F(InProcess, IsRefusedAfterStopBegan) {
  router->begin_stop();
  run([&]() -> asio::awaitable<void> {
    const auto reply = co_await transport.call({"GET", "/v1/models", {}, "", false});
    EXPECT_EQ(reply->status(), 503);
    EXPECT_THAT(co_await reply->read_all(), HasSubstr("shutting_down"));
  }());
}

TEST(OpenRequestsSet, ForgetsUnknownIdsQuietly) {
  asio::io_context loop;
  OpenRequests open(loop.get_executor());
  int cancelled = 0;
  const auto first = open.add([&] { ++cancelled; });
  open.add([&]() -> void { throw std::runtime_error("stuck"); });
  open.add([&] { ++cancelled; });
  open.remove(first);
  open.remove(first);
  open.remove(999);
  EXPECT_EQ(open.size(), 2U);
  open.abort_all();
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(open.size(), 0U);
}

TEST_F(RouterTest, CleanupRunsEveryStepInReverse) {
  std::vector<std::string> order;
  Cleanup cleanup;
  const auto step = [&](std::string name, bool fails) {
    cleanup.push(name, [&order, name, fails]() -> asio::awaitable<void> {
      order.push_back(name);
      if (fails) throw std::runtime_error("stuck");
      co_return;
    });
  };
  step("lock", false);
  step("engines", true);
  step("listener", false);
  run([&]() -> asio::awaitable<void> {
    const auto failures = co_await cleanup.unwind();
    EXPECT_THAT(failures, ElementsAre("engines: stuck"));
    EXPECT_TRUE((co_await cleanup.unwind()).empty());
  }());
  EXPECT_THAT(order, ElementsAre("listener", "engines", "lock"));
}

TEST(Wire, DecodesPercentEncoding) {
  EXPECT_EQ(percent_decode("a%3ab%2Fc"), "a:b/c");
  EXPECT_EQ(percent_decode("%"), std::nullopt);
  EXPECT_EQ(percent_decode("%4"), std::nullopt);
  EXPECT_EQ(percent_decode("%zz"), std::nullopt);
}

TEST(Wire, FindsQueryValues) {
  EXPECT_EQ(query_value("a=1&model=x%3Ay+z", "model"), "x:y z");
  EXPECT_EQ(query_value("model", "model"), "");
  EXPECT_EQ(query_value("modell=1", "model"), std::nullopt);
  EXPECT_EQ(query_value("", "model"), std::nullopt);
}

TEST(Wire, WritesDatesAndDropsSplittingHeaders) {
  EXPECT_EQ(http_date(WallTime(std::chrono::seconds(784111777))), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(response_head(204, {{"a", "b"}, {"c", "d\r\nevil: 1"}}),
            "HTTP/1.1 204 No Content\r\na: b\r\n\r\n");
}

}  // namespace
}  // namespace gezel::http::test
