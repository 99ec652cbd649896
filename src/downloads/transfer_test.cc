// Transfers against a real server on a loopback port.

#include "downloads/transfer.h"

#include <gmock/gmock.h>

#include "base/test_folder.h"
#include "downloads/test_server.h"
#include "downloads/timed_client.h"

namespace gezel::downloads {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::redirect_to;
using testing::Reply;
using testing::serve;
using testing::serve_until;
using testing::ServedRequest;
using testing::TestServer;

std::string content_of(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>((i * 31 + i / 7) & 0xff);
  return out;
}

class Transfer : public ::testing::Test {
 protected:
  Result<Transferred> fetch(const std::string& url, AccessToken token = {}) {
    return transfers.fetch(
        {.url = url, .partial = partial, .expected_bytes = content.size(), .token = std::move(token)},
        {.progress = [&](Bytes written, Bytes) { progress.push_back(written); },
         .retrying = [&](const Retry& retry) { retries.push_back(retry); }},
        cancellation);
  }
  std::string on_disk() { return read_file(partial).value_or("(none)"); }

  TestFolder folder;
  const fs::path partial = folder.path() / "m.gguf.partial";
  const std::string content = content_of(1'500'000);
  testing::SharedClock clock;
  testing::FakeWaiter waiter{clock};
  testing::MiddleEntropy entropy;
  CurlClient client{{.user_agent = "gezel-inference/test"}, clock};
  Transfers transfers{client, waiter, entropy};
  Cancellation cancellation;
  std::vector<Bytes> progress;
  std::vector<Retry> retries;
};

TEST_F(Transfer, FetchesAndHashesInOnePass) {
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  const auto done = fetch(server.url("/m.gguf"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->sha256, sha256_hex(content));
  EXPECT_EQ(on_disk(), content);
  EXPECT_EQ(progress.back(), content.size());
  EXPECT_EQ(server.requests().at(0).user_agent, "gezel-inference/test");
  EXPECT_EQ(server.requests().at(0).authorization, "");
}

TEST_F(Transfer, ResumesWhereThePartialEnds) {
  folder.write("m.gguf.partial", content.substr(0, 500'000));
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  const auto done = fetch(server.url());
  ASSERT_TRUE(done);
  EXPECT_EQ(server.requests().at(0).from, 500'000U);
  EXPECT_EQ(on_disk(), content);
  EXPECT_FALSE(done->sha256) << "bytes that were there before did not pass through";
}

TEST_F(Transfer, Case23AServerThatIgnoresTheRangeStartsOver) {
  folder.write("m.gguf.partial", std::string(1'000'000, 'x'));
  TestServer server([&](const ServedRequest&) {
    Reply out;
    out.body = content;
    return out;
  });
  const auto done = fetch(server.url());
  ASSERT_TRUE(done);
  EXPECT_EQ(on_disk(), content);
  EXPECT_EQ(done->sha256, sha256_hex(content));
}

TEST_F(Transfer, Case24A416CutsThePartial) {
  folder.write("m.gguf.partial", content.substr(0, 1000));
  TestServer server([&](const ServedRequest& request) { return serve(content.substr(0, 900), request); });
  ASSERT_TRUE(fetch(server.url()));
  EXPECT_EQ(on_disk(), content.substr(0, 900));
}

TEST_F(Transfer, ADroppedConnectionIsResumed) {
  int calls = 0;
  TestServer server([&](const ServedRequest& request) {
    return ++calls < 4 ? serve_until(content, request, 200'000) : serve(content, request);
  });
  const auto done = fetch(server.url());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(on_disk(), content);
  EXPECT_EQ(done->sha256, sha256_hex(content)) << "every byte passed through this process";
  ASSERT_EQ(retries.size(), 3U);
  EXPECT_EQ(retries[0].attempt, 2);
  EXPECT_EQ(retries[0].reason.code, "dropped");
  EXPECT_THAT(retries[0].reason.message, HasSubstr("in mid-transfer"));
  EXPECT_TRUE(std::ranges::is_sorted(progress));
}

TEST_F(Transfer, GivesUpWithTheLastReasonAndKeepsThePartial) {
  TestServer server([&](const ServedRequest& request) { return serve_until(content, request, 1000); });
  const auto failed = fetch(server.url());
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("(after 5 attempts)"));
  EXPECT_EQ(on_disk(), content.substr(0, 5000));
}

TEST_F(Transfer, Case29AStalledServerIsTriedAgain) {
  int calls = 0;
  TestServer server([&](const ServedRequest& request) {
    Reply out = serve_until(content, request, 300'000);
    if (++calls > 1) return serve(content, request);
    out.after_body = [&] { clock.advance(Millis(21'000)); };
    return out;
  });
  ASSERT_TRUE(fetch(server.url()));
  EXPECT_EQ(on_disk(), content);
  ASSERT_EQ(retries.size(), 1U);
  EXPECT_EQ(retries[0].reason.code, "stalled");
  EXPECT_THAT(retries[0].reason.message, HasSubstr("nothing for 20 s"));
}

TEST_F(Transfer, ServerErrorsAndRateLimitsAreTransient) {
  int calls = 0;
  TestServer server([&](const ServedRequest& request) {
    Reply out;
    out.status = ++calls == 1 ? 503 : 429;
    return calls < 3 ? out : serve(content, request);
  });
  ASSERT_TRUE(fetch(server.url()));
  ASSERT_EQ(retries.size(), 2U);
  EXPECT_EQ(retries[0].reason.code, "server_error");
  EXPECT_EQ(retries[1].reason.code, "rate_limited");
}

TEST_F(Transfer, DeniedAndMissingFilesAreNotTriedAgain) {
  for (const auto& [status, code] :
       {std::pair{401, "gated_or_denied"}, {403, "gated_or_denied"}, {404, "file_not_on_host"}}) {
    TestServer server([&](const ServedRequest&) {
      Reply out;
      out.status = status;
      out.body = "no";
      return out;
    });
    EXPECT_EQ(fetch(server.url()).error().code, code);
    EXPECT_EQ(server.requests().size(), 1U);
    EXPECT_EQ(on_disk(), "") << "the body of an error is no file";
  }
}

TEST_F(Transfer, AWrongRangeStartsOver) {
  folder.write("m.gguf.partial", content.substr(0, 1000));
  TestServer server([&](const ServedRequest& request) {
    Reply out = serve(content, request);
    if (request.from) {
      out.body = content;
      out.headers = {{"Content-Range", fmt::format("bytes 0-{}/{}", content.size() - 1, content.size())}};
    }
    return out;
  });
  ASSERT_TRUE(fetch(server.url()));
  EXPECT_EQ(on_disk(), content);
  EXPECT_EQ(retries.at(0).reason.code, "wrong_range");
  EXPECT_FALSE(server.requests().at(1).from);
}

TEST_F(Transfer, BytesBehindTheEndAreDropped) {
  folder.write("m.gguf.partial", content.substr(0, 1000));
  TestServer server([&](const ServedRequest& request) {
    Reply out;
    out.status = 206;
    out.body = content.substr(*request.from, 1000) + "more than there is";
    out.headers.emplace_back("Content-Range", "bytes 1000-1999/2000");
    return out;
  });
  ASSERT_TRUE(fetch(server.url()));
  EXPECT_EQ(on_disk(), content.substr(0, 2000));
}

TEST_F(Transfer, ABodyWithoutALengthEndsWithTheConnection) {
  TestServer server([&](const ServedRequest& request) {
    Reply out = serve(content, request);
    out.chunked = true;
    return out;
  });
  ASSERT_TRUE(fetch(server.url()));
  EXPECT_EQ(on_disk(), content);
}

TEST_F(Transfer, FollowsFiveRedirectsAndNoMore) {
  TestServer server([&](const ServedRequest& request) {
    const int left = std::stoi(request.target.substr(1));
    return left == 0 ? serve(content, request) : redirect_to(fmt::format("/{}", left - 1));
  });
  EXPECT_TRUE(fetch(server.url("/5")));
  const auto failed = fetch(server.url("/6"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "too_many_redirects");
}

TEST_F(Transfer, ARedirectToPlainHttpElsewhereIsRefused) {
  TestServer server([&](const ServedRequest&) { return redirect_to("http://example.org/x"); });
  EXPECT_EQ(fetch(server.url()).error().code, "bad_url");
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(Transfer, TheTokenGoesToItsOwnHostOnly) {
  TestServer storage([&](const ServedRequest& request) { return serve(content, request); });
  std::string other;
  TestServer hub([&](const ServedRequest& request) {
    if (request.target == "/file") return redirect_to("/moved");
    return redirect_to(other);
  });
  other = storage.url("/blob");
  ASSERT_TRUE(fetch(hub.url("/file"), {parse_url(hub.url())->origin(), "secret"}));
  EXPECT_EQ(hub.requests().at(0).authorization, "Bearer secret");
  EXPECT_EQ(hub.requests().at(1).authorization, "Bearer secret") << "the same host";
  EXPECT_EQ(storage.requests().at(0).authorization, "");
}

TEST_F(Transfer, ATokenThatWasDroppedDoesNotComeBack) {
  std::string back;
  TestServer detour([&](const ServedRequest&) { return redirect_to(back); });
  TestServer hub([&](const ServedRequest& request) {
    return request.target == "/back" ? serve(content, request) : redirect_to(detour.url());
  });
  back = hub.url("/back");
  ASSERT_TRUE(fetch(hub.url("/file"), {parse_url(hub.url())->origin(), "secret"}));
  EXPECT_EQ(hub.requests().at(1).authorization, "");
}

TEST_F(Transfer, ATokenCannotBringHeadersOfItsOwn) {
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  EXPECT_EQ(fetch(server.url(), {parse_url(server.url())->origin(), "a\r\nX-Evil: 1"}).error().code,
            "bad_token");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Transfer, CancelStopsAtOnceAndKeepsThePartial) {
  TestServer server([&](const ServedRequest& request) {
    Reply out = serve_until(content, request, 300'000);
    out.after_body = [&] { cancellation.cancel(); };
    return out;
  });
  const auto cancelled = fetch(server.url());
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(retries.empty());
  EXPECT_EQ(on_disk(), content.substr(0, on_disk().size()));
}

TEST_F(Transfer, CancelWhileWaitingStops) {
  waiter.on_wait = [&] { cancellation.cancel(); };
  TestServer server([&](const ServedRequest& request) { return serve_until(content, request, 1000); });
  EXPECT_EQ(fetch(server.url()).error().code, "cancelled");
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(Transfer, NobodyThereIsARefusedConnection) {
  std::string url;
  {
    TestServer server([](const ServedRequest&) { return Reply{}; });
    url = server.url();
  }
  const auto failed = fetch(url);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "connection_refused");
  EXPECT_EQ(waiter.delays.size(), 4U);
}

TEST_F(Transfer, NeverWritesThroughALink) {
  const fs::path other = folder.write("other", "precious");
  fs::create_symlink(other, partial);
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  EXPECT_FALSE(fetch(server.url()));
  EXPECT_EQ(read_file(other).value(), "precious");
}

TEST_F(Transfer, SmallDocumentsHaveALimitAndThreeAttempts) {
  int calls = 0;
  TestServer server([&](const ServedRequest& request) {
    Reply out;
    if (request.target == "/busy") {
      out.status = 500;
      ++calls;
    }
    out.body = std::string(1000, 'x');
    return out;
  });
  EXPECT_EQ(transfers.fetch_text(server.url(), 1000, {}, cancellation).value().size(), 1000U);
  EXPECT_EQ(transfers.fetch_text(server.url(), 999, {}, cancellation).error().code, "too_large");
  EXPECT_EQ(transfers.fetch_text(server.url("/busy"), 999, {}, cancellation).error().code, "server_error");
  EXPECT_EQ(calls, 3);
}

TEST_F(Transfer, EndlessHeadersAreRefused) {
  TestServer server([&](const ServedRequest&) {
    Reply out;
    for (int i = 0; i < 2000; ++i) out.headers.emplace_back(fmt::format("X-{}", i), std::string(50, 'x'));
    return out;
  });
  const auto failed = fetch(server.url());
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().code, ::testing::AnyOf("headers_too_large", "network_error"));
}

TEST(CancellationTest, WakesWhoWaits) {
  Cancellation cancellation;
  std::thread other([&] { cancellation.cancel(); });
  EXPECT_FALSE(RealWaiter().wait(Millis(60'000), cancellation));
  other.join();
  EXPECT_TRUE(cancellation.cancelled());
}

TEST_F(Transfer, WhatAProxySaysIsNotTheAnswerOfTheHost) {
  TestServer proxy([](const ServedRequest&) { return Reply(); });
  CurlClient behind({.user_agent = "gezel-inference/test", .proxy = proxy.url("")}, clock);
  const auto failed = Transfers(behind, waiter, entropy)
                          .fetch({.url = "https://hub.invalid/m.gguf", .partial = partial}, {}, cancellation);
  ASSERT_FALSE(failed) << "the head of its 200 has a length of 0";
  EXPECT_EQ(failed.error().code, "tls_error");
  EXPECT_EQ(proxy.requests().at(0).target, "hub.invalid:443");
}

TEST_F(Transfer, AProxyThatRefusesIsNamed) {
  int status = 407;
  TestServer proxy([&](const ServedRequest&) {
    Reply out;
    out.status = status;
    return out;
  });
  CurlClient behind({.user_agent = "gezel-inference/test", .proxy = proxy.url("")}, clock);
  const Transfers through(behind, waiter, entropy);
  const FileRequest request{.url = "https://hub.invalid/m.gguf", .partial = partial};
  auto failed = through.fetch(request, {}, cancellation);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "proxy_refused");
  EXPECT_THAT(failed.error().message, HasSubstr("407"));
  EXPECT_EQ(proxy.requests().size(), 1U);
  status = 503;
  failed = through.fetch(request, {}, cancellation);
  EXPECT_EQ(failed.error().code, "proxy_refused");
  EXPECT_EQ(proxy.requests().size(), 6U) << "it may be better next time";
}

// Sends for as long as somebody listens, up to a bound for the sake of the test.
class EndlessClient final : public HttpClient {
 public:
  Result<> get(const HttpGet& request, HttpSink& sink, const Cancellation&) override {
    ResponseHead head;
    head.status = request.offset > 0 ? 206 : 200;
    if (request.offset > 0)
      head.content_range = parse_content_range(fmt::format("bytes {}-2999/3000", request.offset));
    else
      head.content_length = 3000;
    if (!sink.on_head(head)) return {};
    while (pieces < 100) {
      ++pieces;
      GEZEL_CHECK(sink.on_body(std::string(1000, 'x')));
    }
    return {};
  }
  int pieces = 0;
};

TEST_F(Transfer, ABodyWithoutEndIsLeftWhenTheFileIsComplete) {
  for (const std::size_t there : {0, 1000}) {
    fs::remove(partial);
    if (there > 0) folder.write("m.gguf.partial", std::string(there, 'x'));
    EndlessClient endless;
    const auto done = Transfers(endless, waiter, entropy)
                          .fetch({.url = "https://hub.invalid/m.gguf", .partial = partial}, {}, cancellation);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(on_disk(), std::string(3000, 'x'));
    EXPECT_EQ(endless.pieces, there > 0 ? 2 : 3);
  }
}

TEST_F(Transfer, AHeadThatTricklesInIsNotWaitedForLongerThanTheAnswerMayTake) {
  TestServer server([&](const ServedRequest&) {
    Reply out;
    out.in_head = [&] { clock.advance(Millis(1'000)); };
    return out;
  });
  TimedClient timed(client, clock, Millis(5'000));
  const auto got = Transfers(timed, waiter, entropy).fetch_text(server.url(), 100, {}, cancellation);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "timed_out");
}

}  // namespace
}  // namespace gezel::downloads
