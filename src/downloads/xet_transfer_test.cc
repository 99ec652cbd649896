// A hub, a storage that refuses to give the file whole, and segments of it, on a loopback port.
#include "downloads/xet_transfer.h"

#include <gmock/gmock.h>

#include "base/test_folder.h"
#include "downloads/test_server.h"
#include "downloads/xet_test_store.h"

namespace gezel::downloads {
namespace {

using testing::chunk_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::redirect_to;
using testing::Reply;
using testing::serve;
using testing::ServedRequest;
using testing::TestServer;

const std::string kHash(64, 'e');

class Stored : public ::testing::Test {
 protected:
  Stored() {
    // Two stored objects; the file begins 40 bytes into chunk 1 of the first, and ends with its chunk 0.
    for (int i = 0; i < 4; ++i) chunks.push_back(std::string(100, static_cast<char>('a' + i)) + "0123");
    first = chunk_of(chunks[0], 0) + chunk_of(chunks[1], 1) + chunk_of(chunks[2], 2);
    first_end = first.size();
    second = chunk_of(chunks[3], 2);
    content = (chunks[1] + chunks[2]).substr(40) + chunks[3] + chunks[0];
  }

  // "padding" stands before the segment in the stored object.
  std::string segment(std::string_view name, std::string_view bytes, int count) const {
    return fmt::format(
        R"("{0}":[{{"range":{{"start":0,"end":{1}}},"url":"{2}","url_range":{{"start":7,"end":{3}}}}}])",
        name, count, server.url("/" + std::string(name)), 7 + bytes.size() - 1);
  }
  static std::string term(std::string_view name, int begin, int end, std::size_t bytes) {
    return fmt::format(R"({{"hash":"{}","unpacked_length":{},"range":{{"start":{},"end":{}}}}})", name, bytes,
                       begin, end);
  }

  Reply answer(const ServedRequest& request) {
    Reply out;
    if (const auto odd = fail.find(request.target); odd != fail.end() && odd->second.second-- > 0) {
      out.status = odd->second.first;
      return out;
    }
    if (request.target == "/m.gguf" && !first_to.empty()) {
      out = redirect_to(first_to);
    } else if (request.target == "/m.gguf" || request.target == "/odd") {
      out = redirect_to(plain_works ? "/whole" : "/refused");
      out.headers.emplace_back("X-Xet-Hash", kHash);
      out.headers.emplace_back("Link", fmt::format(R"(<{}>; rel="xet-auth")", server.url("/access")));
    } else if (request.target == "/whole") {
      return serve(content, request);
    } else if (request.target == "/refused") {
      out.status = 403;
    } else if (request.target == "/access") {
      out.body = fmt::format(R"({{"casUrl":"{}","accessToken":"storage","exp":1}})", server.url(""));
    } else if (request.target == "/v1/reconstructions/" + kHash) {
      out.body =
          fmt::format(R"({{"offset_into_first_range":40,"terms":[{},{},{}],"fetch_info":{{{},{}}}}})",
                      term("first", 1, 3, 208), term("second", 0, 1, 104), term("first", 0, 1, last_length),
                      segment("first", first, 3), segment("second", second, 1));
    } else if (request.target == "/first") {
      return serve("padding" + first + "behind", request);
    } else if (request.target == "/second") {
      return serve("padding" + second, request);
    } else {
      out.status = 404;
    }
    return out;
  }

  Result<Transferred> fetch(AccessToken token = {}) {
    return transfers.fetch({.url = server.url("/m.gguf"), .partial = partial, .token = std::move(token)},
                           {.progress = [&](Bytes written, Bytes total) { progress = {written, total}; },
                            .retrying = [&](const Retry& retry) { retries.push_back(retry.reason.code); }},
                           cancellation);
  }
  std::vector<std::string> asked() {
    std::vector<std::string> out;
    for (const auto& request : server.requests()) out.push_back(request.target);
    return out;
  }
  std::string on_disk() { return read_file(partial).value_or("(none)"); }

  std::vector<std::string> chunks;
  std::string first, second, content;
  std::size_t first_end = 0, last_length = 104;
  bool plain_works = false;
  std::string first_to;                             // where the file's own address leads first
  std::map<std::string, std::pair<int, int>> fail;  // target -> status, so many times
  TestFolder folder;
  const fs::path partial = folder.path() / "m.gguf.partial";
  testing::SharedClock clock;
  testing::FakeWaiter waiter{clock};
  testing::MiddleEntropy entropy;
  CurlClient client{{.user_agent = "gezel-inference/test"}, clock};
  Transfers transfers{client, waiter, entropy};
  Cancellation cancellation;
  std::pair<Bytes, Bytes> progress;
  std::vector<std::string> retries;
  TestServer server{[this](const ServedRequest& request) { return answer(request); }};
};

TEST_F(Stored, AFileThatIsRefusedWholeComesInParts) {
  const auto done = fetch();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(on_disk(), content);
  EXPECT_EQ(done->bytes, content.size());
  EXPECT_EQ(done->sha256, sha256_hex(content));
  EXPECT_EQ(progress, (std::pair<Bytes, Bytes>{content.size(), content.size()}));
  EXPECT_THAT(asked(), ElementsAre("/m.gguf", "/refused", "/access", "/v1/reconstructions/" + kHash, "/first",
                                   "/second", "/first"));
  const auto last = server.requests().back();
  EXPECT_EQ(last.from, 7U);
  EXPECT_EQ(last.to, 7 + first_end - 1);
}

TEST_F(Stored, APlainAddressThatWorksIsUsed) {
  plain_works = true;
  ASSERT_TRUE(fetch());
  EXPECT_EQ(on_disk(), content);
  EXPECT_THAT(asked(), ElementsAre("/m.gguf", "/whole"));
}

TEST_F(Stored, TokensAreShownWhereTheyBelong) {
  ASSERT_TRUE(fetch({parse_url(server.url())->origin(), "mine"}));
  for (const auto& request : server.requests()) {
    const std::string expected = request.target.starts_with("/v1/")    ? "Bearer storage"
                                 : request.target.find("/first") == 0  ? ""
                                 : request.target.find("/second") == 0 ? ""
                                                                       : "Bearer mine";
    EXPECT_EQ(request.authorization, expected) << request.target;
  }
}

TEST_F(Stored, WholeTermsThatAreThereAreNotAskedForAgain) {
  for (const std::size_t there : {0U, 1U, 100U, 167U, 168U, 169U, 271U, 272U, 300U, 375U, 376U, 381U}) {
    std::string text = content.substr(0, there);
    text.resize(there, 'x');
    folder.write("m.gguf.partial", text);
    const std::size_t before = server.requests().size();
    ASSERT_TRUE(fetch()) << there;
    EXPECT_EQ(on_disk(), content) << there;
    const auto targets = asked();
    std::vector<std::string> parts;
    for (std::size_t i = before; i < targets.size(); ++i) {
      if (targets[i] == "/first" || targets[i] == "/second") parts.push_back(targets[i]);
    }
    std::vector<std::string> expected;
    if (there < 168) expected.emplace_back("/first");
    if (there < 272) expected.emplace_back("/second");
    if (there < content.size()) expected.emplace_back("/first");
    EXPECT_EQ(parts, expected) << there;
  }
}

TEST_F(Stored, ASegmentIsTriedAgainBeforeTheFileIs) {
  fail["/second"] = {503, 3};
  ASSERT_TRUE(fetch());
  EXPECT_THAT(waiter.delays, ElementsAre(Millis(400), Millis(1'200), Millis(2'500)));
  EXPECT_THAT(retries, IsEmpty());
}

TEST_F(Stored, WhatHoldsTooLongCostsAnAttemptAndKeepsWhatCame) {
  fail["/second"] = {403, 5};
  ASSERT_TRUE(fetch());
  EXPECT_EQ(on_disk(), content);
  EXPECT_EQ(retries.size(), 1U);
  EXPECT_EQ(std::ranges::count(asked(), "/v1/reconstructions/" + kHash), 2)
      << "addresses that are too old are asked for anew";
}

TEST_F(Stored, StatusesThatMayGoAwayDo) {
  fail["/v1/reconstructions/" + kHash] = {403, 1};
  fail["/access"] = {429, 1};
  ASSERT_TRUE(fetch());
  EXPECT_EQ(retries.size(), 2U);
}

TEST_F(Stored, AHubThatGivesNoAccessIsFinal) {
  fail["/access"] = {401, 100};
  EXPECT_EQ(fetch().error().code, "gated_or_denied");
  EXPECT_THAT(retries, IsEmpty());
}

TEST_F(Stored, APartThatIsNotWhatWasSaidIsFinal) {
  last_length = 103;
  EXPECT_EQ(fetch().error().code, "bad_chunk");
  last_length = 105;
  fs::remove(partial);
  EXPECT_EQ(fetch().error().code, "bad_chunk");
}

TEST_F(Stored, NoAddressOfASecureHubLeadsToThisMachine) {
  // The hub is never asked: its answer is what would lead here.
  class Sink final : public xet::FileSink {
   public:
    Bytes have() const override { return 0; }
    Result<> begin(Bytes) override { return {}; }
    Result<> write(std::string_view) override { return {}; }
  } sink;
  const auto got = xet::fetch_stored(
      client, waiter,
      {.hub = "https://hub.example/m.gguf", .access_url = server.url("/access"), .hash = kHash}, {}, sink,
      cancellation);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "bad_url");
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(Stored, AnotherHostOfTheChainDoesNotSayWhereTheStorageIs) {
  first_to = server.url("/odd", "localhost");
  EXPECT_EQ(fetch({parse_url(server.url())->origin(), "mine"}).error().code, "gated_or_denied");
  EXPECT_THAT(asked(), ElementsAre("/m.gguf", "/odd", "/refused"));
}

TEST_F(Stored, AFileThatTheHubMovedComesInPartsAsWell) {
  first_to = "/odd";
  ASSERT_TRUE(fetch());
  EXPECT_EQ(on_disk(), content);
}

TEST_F(Stored, AHubThatIsNotTheTokensDoesNotAimIt) {
  class Sink final : public xet::FileSink {
   public:
    Bytes have() const override { return bytes_; }
    Result<> begin(Bytes) override { return {}; }
    Result<> write(std::string_view data) override {
      bytes_ += data.size();
      return {};
    }

   private:
    Bytes bytes_ = 0;
  } sink;
  ASSERT_TRUE(xet::fetch_stored(
      client, waiter,
      {.hub = server.url("/m.gguf", "localhost"), .access_url = server.url("/access"), .hash = kHash},
      {parse_url(server.url())->origin(), "mine"}, sink, cancellation));
  EXPECT_EQ(server.requests().front().target, "/access");
  EXPECT_EQ(server.requests().front().authorization, "");
}

}  // namespace
}  // namespace gezel::downloads
