// Addresses that somebody else chose lead to public hosts only.
#include <gmock/gmock.h>

#include "base/test_folder.h"
#include "downloads/test_server.h"
#include "downloads/transfer.h"

namespace gezel::downloads {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Reply;
using testing::serve;
using testing::ServedRequest;
using testing::TestServer;

// Redirects once, and remembers how it was asked.
class RedirectingClient final : public HttpClient {
 public:
  Result<> get(const HttpGet& request, HttpSink& sink, const Cancellation&) override {
    asked.push_back(request.url.host);
    guarded.push_back(request.public_only);
    ResponseHead head;
    head.status = asked.size() == 1 ? 302 : 404;
    head.location = "https://elsewhere.example/m.gguf";
    sink.on_head(head);
    return {};
  }
  std::vector<std::string> asked;
  std::vector<bool> guarded;
};

class Nothing final : public HttpSink {
 public:
  bool on_head(const ResponseHead&) override { return true; }
  Result<> on_body(std::string_view) override { return {}; }
};

class PublicOnly : public ::testing::Test {
 protected:
  Result<Transferred> fetch(HttpClient& from, const std::string& url) {
    return Transfers(from, waiter, entropy)
        .fetch({.url = url, .partial = folder.path() / "m.partial", .token = {}, .public_only = true}, {},
               {});
  }

  TestFolder folder;
  testing::SharedClock clock;
  testing::FakeWaiter waiter{clock};
  testing::MiddleEntropy entropy;
  CurlClient client{{.user_agent = "gezel-inference/test"}, clock};
};

TEST_F(PublicOnly, AHostWrittenAsANumberIsRefusedUnasked) {
  for (const char* url :
       {"https://10.1.2.3/m.gguf", "https://[fd00::1]/m.gguf", "https://169.254.169.254/m.gguf"}) {
    const auto refused = fetch(client, url);
    ASSERT_FALSE(refused) << url;
    EXPECT_EQ(refused.error().code, "private_address");
    EXPECT_THAT(refused.error().message, HasSubstr("gezel import"));
  }
  EXPECT_THAT(waiter.delays, IsEmpty()) << "it will not be another one later";
}

TEST_F(PublicOnly, ANameIsRefusedByTheAddressItLeadsTo) {
  TestServer server([](const ServedRequest& request) { return serve("x", request); });
  Nothing sink;
  const HttpGet request{.url = parse_url(server.url("/m.gguf", "localhost")).value(),
                        .bearer = {},
                        .unless_etag = {},
                        .public_only = true};
  const auto refused = client.get(request, sink, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "private_address");
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST_F(PublicOnly, ThisMachineMayBeNamedButNobodyElseLeadsThere) {
  TestServer server([](const ServedRequest& request) { return serve("content", request); });
  EXPECT_TRUE(fetch(client, server.url("/m.gguf")));
  RedirectingClient redirecting;
  fs::remove(folder.path() / "m.partial");
  EXPECT_FALSE(fetch(redirecting, "https://models.example/m.gguf"));
  EXPECT_THAT(redirecting.asked, ElementsAre("models.example", "elsewhere.example"));
  EXPECT_THAT(redirecting.guarded, ElementsAre(true, true));
}

}  // namespace
}  // namespace gezel::downloads
