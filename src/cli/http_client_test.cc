#include "cli/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace gezel::cli {
namespace {

using ::testing::HasSubstr;

Result<HttpReply> ask(std::vector<std::string> raw, const StreamHooks& hooks = {}) {
  FakeDaemon daemon([raw](const SeenRequest&) { return raw; });
  return HttpClient(daemon.port(), "t").send({.target = "/x"}, hooks);
}

TEST(HttpClient, ReadsEveryFormOfBody) {
  const std::vector<std::vector<std::string>> replies{
      {"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"},
      {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nl", "lo\r\n0\r\n\r\n"},
      {"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", "hel", "lo"},
      {"HTTP/1.1 2", "00 OK\r\ncontent-le", "ngth: 5\r", "\n\r\nhell", "o"},
  };
  for (const auto& reply : replies) {
    const auto got = ask(reply);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->status, 200);
    EXPECT_EQ(got->body, "hello");
  }
}

TEST(HttpClient, AReplyMayHaveNoBody) {
  const auto got = ask({"HTTP/1.1 204 No Content\r\n\r\n"});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, 204);
}

TEST(HttpClient, StreamsOnlyEvents) {
  std::string pieces;
  const StreamHooks hooks{.on_piece = [&](std::string_view piece) {
    pieces += piece;
    return true;
  }};
  ASSERT_TRUE(ask({"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", "ab", "cd"}, hooks));
  EXPECT_EQ(pieces, "abcd");
  const auto error =
      ask({"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"}, hooks);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->body, "{}");
  EXPECT_EQ(pieces, "abcd");
}

TEST(HttpClient, EndsAStreamWhenToldTo) {
  int calls = 0;
  const auto got =
      ask({"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
           "1\r\na\r\n"},
          {.on_piece = [&](std::string_view) { return ++calls < 1; }});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(calls, 1);
}

TEST(HttpClient, NamesWhatWentWrong) {
  const auto code = [](std::vector<std::string> raw) {
    const auto got = ask(std::move(raw));
    return got ? "ok" : got.error().code;
  };
  EXPECT_EQ(code({}), kCodeLost);
  EXPECT_EQ(code({"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel"}), kCodeLost);
  EXPECT_EQ(code({"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel"}), kCodeLost);
  EXPECT_EQ(code({"SSH-2.0-OpenSSH_9.2\r\n\r\n"}), kCodeBadReply);
  EXPECT_EQ(code({"HTTP/1.1 200 OK\r\nx: " + std::string(40'000, 'x') + "\r\n\r\n"}), kCodeBadReply);
}

TEST(HttpClient, NobodyThereIsUnreachable) {
  std::uint16_t port = 0;
  {
    const FakeDaemon daemon([](const SeenRequest&) { return std::vector<std::string>(); });
    port = daemon.port();
  }
  const auto got = HttpClient(port, "").send({.target = "/"});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, kCodeUnreachable);
  EXPECT_EQ(exit_code_for(got.error()), kUnreachable);
}

TEST(HttpClient, ControlCEndsAWait) {
  // The daemon accepts and never answers; the signal comes from the first look at the clock.
  boost::asio::io_context loop;
  boost::asio::ip::tcp::acceptor silent(loop, {boost::asio::ip::address_v4::loopback(), 0});
  const Interrupt interrupt;
  const auto got =
      HttpClient(silent.local_endpoint().port(), "").send({.target = "/"}, {.on_wait = [](Millis) {
                                                            std::raise(SIGINT);
                                                          }});
  ASSERT_FALSE(got);
  EXPECT_EQ(exit_code_for(got.error()), kInterrupted);
}

TEST(HttpClient, SilenceHasALimit) {
  boost::asio::io_context loop;
  boost::asio::ip::tcp::acceptor silent(loop, {boost::asio::ip::address_v4::loopback(), 0});
  const auto got =
      HttpClient(silent.local_endpoint().port(), "").send({.target = "/slow", .silence = Millis(1)});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, kCodeTimeout);
  EXPECT_THAT(got.error().message, HasSubstr("/slow"));
}

}  // namespace
}  // namespace gezel::cli
