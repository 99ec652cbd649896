#include "downloads/local_files.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "downloads/test_server.h"
#include "downloads/transfer.h"

namespace gezel::downloads {
namespace {

class Local : public ::testing::Test {
 protected:
  Result<Transferred> fetch(const std::string& url) {
    return transfers.fetch({.url = url, .partial = folder.path() / "out.partial"}, {}, cancellation);
  }
  std::string base() { return "file://" + folder.path().string(); }

  TestFolder folder;
  testing::SharedClock clock;
  testing::FakeWaiter waiter{clock};
  testing::MiddleEntropy entropy;
  CurlClient network{{.user_agent = "test"}, clock};
  LocalFiles client{network};
  Transfers transfers{client, waiter, entropy};
  Cancellation cancellation;
};

TEST_F(Local, AFolderIsASourceLikeAnyOther) {
  folder.write("org/my repo/resolve/main/m%.gguf", "content");
  const auto done = fetch(base() + "/org/my%20repo/resolve/main/m%25.gguf?download=true");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->sha256, sha256_hex("content"));
  EXPECT_EQ(read_file(folder.path() / "out.partial").value(), "content");
}

TEST_F(Local, GoesOnWhereAPartialEnds) {
  folder.write("m.gguf", "0123456789");
  folder.write("out.partial", "0123");
  ASSERT_TRUE(fetch(base() + "/m.gguf"));
  EXPECT_EQ(read_file(folder.path() / "out.partial").value(), "0123456789");
}

TEST_F(Local, WhatIsNotThereIsNotTriedAgain) {
  EXPECT_EQ(fetch(base() + "/none.gguf").error().code, "file_not_on_host");
  EXPECT_EQ(fetch(base()).error().code, "file_not_on_host") << "a folder is no file";
  EXPECT_TRUE(waiter.delays.empty());
}

TEST_F(Local, ARedirectDoesNotLeadToAFile) {
  folder.write("secret", "secret");
  testing::TestServer server(
      [&](const testing::ServedRequest&) { return testing::redirect_to(base() + "/secret"); });
  EXPECT_EQ(fetch(server.url()).error().code, "bad_url");
}

TEST_F(Local, ACancelledTransferStops) {
  folder.write("m.gguf", "0123456789");
  cancellation.cancel();
  EXPECT_EQ(fetch(base() + "/m.gguf").error().kind, ErrorKind::cancelled);
}

}  // namespace
}  // namespace gezel::downloads
