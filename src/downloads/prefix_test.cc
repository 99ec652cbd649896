// Beginnings of files from a real server on a loopback port.
#include <gmock/gmock.h>

#include "downloads/test_server.h"
#include "downloads/transfer.h"

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

class PrefixFetch : public ::testing::Test {
 protected:
  // A reader that needs so many bytes, and remembers what it was shown.
  PrefixReader needs(Bytes bytes) {
    return [this, bytes](std::string_view beginning, Bytes file_bytes) {
      looks.push_back(beginning.size());
      right = right && content.starts_with(beginning) && file_bytes == content.size();
      return beginning.size() >= bytes;
    };
  }
  Result<Prefix> fetch(const std::string& url, const PrefixReader& enough, std::string unless_etag = {}) {
    return transfers.fetch_prefix({.url = url,
                                   .first_bytes = 1000,
                                   .most_bytes = 10'000,
                                   .token = {},
                                   .unless_etag = std::move(unless_etag)},
                                  enough, cancellation);
  }
  std::vector<std::string> ranges(const TestServer& server) {
    std::vector<std::string> out;
    for (const auto& request : server.requests()) {
      out.push_back(!request.from ? "all"
                                  : fmt::format("{}-{}", *request.from, request.to ? int(*request.to) : -1));
    }
    return out;
  }

  std::string content = [] {
    std::string out(100'000, '\0');
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 31 + i / 7);
    return out;
  }();
  testing::SharedClock clock;
  testing::FakeWaiter waiter{clock};
  testing::MiddleEntropy entropy;
  CurlClient client{{.user_agent = "gezel-inference/test"}, clock};
  Transfers transfers{client, waiter, entropy};
  Cancellation cancellation;
  std::vector<Bytes> looks;
  bool right = true;  // every beginning was one of `content`
};

TEST_F(PrefixFetch, ASmallHeaderTakesOneRange) {
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  const auto got = fetch(server.url(), needs(300));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->file_bytes, content.size());
  EXPECT_EQ(got->read_bytes, 1000U);
  EXPECT_THAT(ranges(server), ElementsAre("0-999"));
  EXPECT_TRUE(right);
}

TEST_F(PrefixFetch, ALargerOneTakesRangesThatDouble) {
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  const auto got = fetch(server.url(), needs(3500));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->read_bytes, 4000U);
  EXPECT_THAT(ranges(server), ElementsAre("0-999", "1000-1999", "2000-3999"));
  EXPECT_THAT(looks, ElementsAre(1000, 2000, 4000));
  EXPECT_TRUE(right);
}

TEST_F(PrefixFetch, AServerThatIgnoresRangesIsCutOffWhenThereIsEnough) {
  content.resize(50'000'000, 'x');
  TestServer server([&](const ServedRequest&) {
    Reply out;
    out.body = content;
    return out;
  });
  const auto got = fetch(server.url(), needs(3500));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->file_bytes, content.size());
  EXPECT_LT(got->read_bytes, content.size() / 10);
  EXPECT_THAT(looks, ElementsAre(1000, 2000, 4000));
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_TRUE(right);
}

TEST_F(PrefixFetch, AServerThatSendsMoreThanThePartIsReadOn) {
  TestServer server([&](ServedRequest request) {
    request.to.reset();
    return serve(content, request);
  });
  ASSERT_TRUE(fetch(server.url(), needs(3500)));
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_TRUE(right);
}

TEST_F(PrefixFetch, AServerThatSendsLessThanThePartIsAskedForTheRest) {
  TestServer server([&](ServedRequest request) {
    request.to = std::min(*request.to, *request.from + 599);
    return serve(content, request);
  });
  ASSERT_TRUE(fetch(server.url(), needs(2000)));
  EXPECT_THAT(ranges(server), ElementsAre("0-999", "600-999", "1000-1999", "1600-1999"));
  EXPECT_THAT(looks, ElementsAre(1000, 2000));
  EXPECT_TRUE(right);
}

TEST_F(PrefixFetch, AServerThatRefusesRangesIsAskedForTheFile) {
  TestServer server([&](const ServedRequest& request) {
    Reply out;
    if (request.from) {
      out.status = 416;
    } else {
      out.body = content;
    }
    return out;
  });
  const auto got = fetch(server.url(), needs(3500));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_THAT(ranges(server), ElementsAre("0-999", "all"));
  EXPECT_TRUE(right);
}

TEST_F(PrefixFetch, AFileThatEndsBeforeTheFirstGoalIsShownWhole) {
  content.resize(400);
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  const auto got = fetch(server.url(), needs(5000));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_THAT(looks, ElementsAre(400)) << "the reader has to say what is missing";
  EXPECT_EQ(got->file_bytes, 400U);
}

TEST_F(PrefixFetch, ADroppedConnectionIsGoneOnWith) {
  int calls = 0;
  TestServer server([&](const ServedRequest& request) {
    return ++calls == 1 ? serve_until(content, request, 700) : serve(content, request);
  });
  const auto got = fetch(server.url(), needs(1000));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_THAT(ranges(server), ElementsAre("0-999", "700-999"));
  EXPECT_TRUE(right);
}

TEST_F(PrefixFetch, AnEndlessHeaderIsGivenUpAtTheLimit) {
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  const auto got = fetch(server.url(), needs(50'000));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "header_too_large");
  EXPECT_THAT(got.error().message, HasSubstr("9.8 KiB"));
  EXPECT_THAT(looks, ElementsAre(1000, 2000, 4000, 8000, 10'000));
}

TEST_F(PrefixFetch, AFileThatChangesMeanwhileIsReadAnew) {
  int calls = 0;
  TestServer server([&](const ServedRequest& request) {
    Reply out = serve(content, request);
    out.headers.emplace_back("ETag", ++calls == 1 ? "\"old\"" : "\"new\"");
    return out;
  });
  const auto got = fetch(server.url(), needs(2000));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->etag, "\"new\"");
  EXPECT_THAT(ranges(server), ElementsAre("0-999", "1000-1999", "0-1999"));
}

TEST_F(PrefixFetch, AFileThatIsAsItWasIsNotReadAgain) {
  TestServer server([&](const ServedRequest& request) {
    Reply out;
    out.status = request.unless_etag == "\"one\"" ? 304 : 500;
    return out;
  });
  const auto got = fetch(server.url(), needs(300), "\"one\"");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(got->unchanged);
  EXPECT_EQ(got->read_bytes, 0U);
  EXPECT_THAT(looks, ElementsAre());
}

TEST_F(PrefixFetch, TheTokenStaysWithItsOrigin) {
  TestServer elsewhere([&](const ServedRequest& request) { return serve(content, request); });
  TestServer server([&](const ServedRequest&) { return redirect_to(elsewhere.url("/m", "localhost")); });
  const auto got = transfers.fetch_prefix(
      {.url = server.url(), .token = {parse_url(server.url())->origin(), "secret"}, .unless_etag = {}},
      needs(300), cancellation);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(server.requests().at(0).authorization, "Bearer secret");
  EXPECT_EQ(elsewhere.requests().at(0).authorization, "");
}

TEST_F(PrefixFetch, ASilentServerIsGivenUpAfterThreeAttempts) {
  TestServer server([&](const ServedRequest& request) {
    Reply out = serve_until(content, request, 10);
    out.after_body = [&] { clock.advance(Millis(21'000)); };
    return out;
  });
  const auto got = fetch(server.url(), needs(300));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "stalled");
  EXPECT_THAT(got.error().message, HasSubstr("127.0.0.1 sent nothing"));
  EXPECT_EQ(server.requests().size(), 3U);
}

TEST_F(PrefixFetch, AServerThatNeverSaysHowLargeTheFileIsCannotBePlannedWith) {
  TestServer server([&](const ServedRequest&) {
    Reply out;
    out.body = content;
    out.chunked = true;
    return out;
  });
  const auto got = fetch(server.url(), needs(300));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "unknown_size");
}

TEST_F(PrefixFetch, CancellingEndsItAtOnce) {
  TestServer server([&](const ServedRequest& request) {
    Reply out = serve_until(content, request, 10);
    out.after_body = [&] { cancellation.cancel(); };
    return out;
  });
  const auto got = fetch(server.url(), needs(300));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::cancelled);
}

TEST_F(PrefixFetch, WhatIsRefusedIsNotAskedForAgain) {
  TestServer server([&](const ServedRequest&) {
    Reply out;
    out.status = 403;
    return out;
  });
  EXPECT_EQ(fetch(server.url(), needs(300)).error().code, "gated_or_denied");
  EXPECT_EQ(server.requests().size(), 1U);
}

}  // namespace
}  // namespace gezel::downloads
