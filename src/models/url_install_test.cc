// Models of any address, from a real server on a loopback port that is well, drops, truncates, corrupts, is
// slow, refuses ranges or says no sizes.
#include <gmock/gmock.h>

#include "models/install_test_support.h"
#include "models/manifest.h"
#include "models/url_source.h"

namespace gezel::models {
namespace {

using downloads::testing::Reply;
using downloads::testing::serve;
using downloads::testing::serve_until;
using downloads::testing::ServedRequest;
using downloads::testing::TestServer;
using ::testing::ElementsAre;
using testing::Files;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::tiny_model;

class UrlInstall : public testing::InstallTest {
 protected:
  static std::string name_of(const ServedRequest& request) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    return path.substr(path.rfind('/') + 1);
  }
  Reply answer(const ServedRequest& request) {
    if (trouble) return trouble(request);
    const auto found = files.find(name_of(request));
    if (found != files.end()) return serve(found->second, request);
    Reply out;
    out.status = 404;
    return out;
  }
  // As the service does it: plan, look, install.
  std::expected<Installed, InstallError> pull(const std::string& path, std::string_view sha256 = {},
                                              InstallOptions options = {}) {
    auto plan = plan_url(server.url(path), "", sha256);
    if (!plan) return std::unexpected(InstallError{plan.error(), {}});
    id = plan->id;
    const auto looked = look_at_url(*plan, transfers, options.token, cancellation);
    if (!looked && looked.error().code != "unknown_size")
      return std::unexpected(InstallError{looked.error(), {}});
    sizes = plan->total_bytes();
    return run(*plan, options);
  }

  Files files{{"m.gguf", tiny_model("llama", 4096)}};
  std::function<Reply(const ServedRequest&)> trouble;
  std::string id;
  Bytes sizes = 0;
  TestServer server{[this](const ServedRequest& request) { return answer(request); }};
};

TEST_F(UrlInstall, PutsTheFileInPlaceAndRemembersWhereItWas) {
  const auto done = pull("/sub/m.gguf?key=7");
  ASSERT_TRUE(done) << done.error().error.message;
  EXPECT_EQ(sizes, files["m.gguf"].size()) << "the header said how large it is";
  const auto model = store.find("local-m");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->source, "url");
  EXPECT_EQ(model->address, server.url("/sub/m.gguf"));
  EXPECT_EQ(model->sha256.at("m.gguf"), sha256_hex(files["m.gguf"]));
  EXPECT_FALSE(manifest_of("local-m").contains("payloadFingerprint")) << "nothing vouched for it";
  EXPECT_THAT(read_file(store.root() / "local-m/manifest.json").value(), ::testing::Not(HasSubstr("key=7")));
}

TEST_F(UrlInstall, ADigestThatWasGivenIsChecked) {
  const std::string digest = sha256_hex(files["m.gguf"]);
  ASSERT_TRUE(pull("/m.gguf", digest));
  EXPECT_TRUE(manifest_of("local-m").contains("payloadFingerprint"));
  ASSERT_TRUE(store.remove({.id = "local-m"}));
  const auto wrong = pull("/m.gguf", std::string(64, 'a'));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(code(wrong), "hash_mismatch");
  EXPECT_THAT(wrong.error().error.message, HasSubstr("the one that was asked for"));
  ASSERT_TRUE(wrong.error().mismatch);
  EXPECT_EQ(wrong.error().mismatch->actual, digest);
  EXPECT_FALSE(store.find("local-m"));
}

TEST_F(UrlInstall, WhatIsNoModelIsRefusedByItsFirstBytes) {
  files["page"] = "<html>" + std::string(10 * kMiB, 'x');
  const auto refused = pull("/page");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.kind, ErrorKind::corrupt);
  EXPECT_THAT(refused.error().error.message, HasSubstr("page.gguf"));
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_LE(*server.requests()[0].to, kMiB);
  EXPECT_THAT(names_in(store.root()), IsEmpty());
}

TEST_F(UrlInstall, ADroppedConnectionIsGoneOnWithWhereItBroke) {
  const std::string& content = files["m.gguf"];
  int calls = 0;
  trouble = [&](const ServedRequest& request) {
    // The look asks for a beginning and an end; the download for everything from somewhere on.
    return request.to || ++calls > 2 ? serve(content, request) : serve_until(content, request, 1'000);
  };
  const auto done = pull("/m.gguf");
  ASSERT_TRUE(done) << done.error().error.message;
  EXPECT_EQ(server.requests().back().from, 2'000U);
  EXPECT_EQ(observer.retries.size(), 2U);
  EXPECT_EQ(read_file(store.find("local-m")->weights).value(), content);
}

TEST_F(UrlInstall, ALaterTryGoesOnFromWhatArrived) {
  const std::string& content = files["m.gguf"];
  bool well = false;
  trouble = [&](const ServedRequest& request) {
    return request.to || well ? serve(content, request) : serve_until(content, request, 300);
  };
  EXPECT_EQ(code(pull("/m.gguf?key=1")), "dropped");
  EXPECT_EQ(store.inventory().incomplete.at(0).bytes, 1'500U) << "five attempts";
  well = true;
  ASSERT_TRUE(pull("/m.gguf?key=1"));
  EXPECT_EQ(server.requests().back().from, 1'500U);
  EXPECT_EQ(read_file(store.find("local-m")->weights).value(), content);
}

TEST_F(UrlInstall, AHostWithoutRangesSendsTheWholeFileAgain) {
  const std::string& content = files["m.gguf"];
  int whole = 0;
  trouble = [&](const ServedRequest& asked) {
    ServedRequest request = asked;
    request.from.reset();
    // The look, then a download that breaks, then one that ends well.
    return ++whole == 2 ? serve_until(content, request, 900) : serve(content, request);
  };
  const auto done = pull("/m.gguf");
  ASSERT_TRUE(done) << done.error().error.message;
  EXPECT_EQ(read_file(store.find("local-m")->weights).value(), content);
  EXPECT_EQ(store.find("local-m")->sha256.at("m.gguf"), sha256_hex(content));
}

TEST_F(UrlInstall, AFileThatIsCutOffIsNoModel) {
  const std::string content = files["m.gguf"].substr(0, files["m.gguf"].size() / 2);
  trouble = [&](const ServedRequest& request) { return serve(content, request); };
  const auto refused = pull("/m.gguf");
  ASSERT_FALSE(refused);
  EXPECT_THAT(names_in(store.root()), IsEmpty()) << "nothing was downloaded";
}

TEST_F(UrlInstall, AFileThatChangesBetweenLookAndDownloadIsReadAnew) {
  const std::string broken(files["m.gguf"].size(), 'x');
  trouble = [&](const ServedRequest& request) {
    return serve(request.to ? files["m.gguf"] : broken, request);
  };
  const auto refused = pull("/m.gguf");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().error.message, HasSubstr("is no model that can be run"));
  EXPECT_FALSE(store.find("local-m"));
  EXPECT_THAT(store.inventory().incomplete, IsEmpty()) << "it is of no use to a later try";
}

TEST_F(UrlInstall, AHostThatSaysNoSizeCanStillBeTakenFrom) {
  files["m.gguf"] = tiny_model("llama", kMiB);  // more than a look reads
  trouble = [&](const ServedRequest&) {
    Reply out;
    out.body = files["m.gguf"];
    out.chunked = true;
    return out;
  };
  const auto done = pull("/m.gguf");
  ASSERT_TRUE(done) << done.error().error.message;
  EXPECT_EQ(sizes, 0U);
  EXPECT_TRUE(store.find("local-m"));
}

TEST_F(UrlInstall, PartsAreFoundBesideTheOneThatIsNamed) {
  files.clear();
  const auto part = [](std::uint16_t number) {
    gguf::testing::TestFile file;
    file.text("general.architecture", "llama")
        .u32("llama.context_length", 4096)
        .text("tokenizer.chat_template", "{{ messages }}")
        .entry("split.no", gguf::testing::kU16, gguf::testing::raw(number))
        .entry("split.count", gguf::testing::kU16, gguf::testing::raw<std::uint16_t>(2))
        .tensor("blk." + std::to_string(number) + ".weight", 256);
    return file.bytes();
  };
  files["big-00001-of-00002.gguf"] = part(0);
  files["big-00002-of-00002.gguf"] = part(1);
  const auto done = pull("/d/big-00002-of-00002.gguf");
  ASSERT_TRUE(done) << done.error().error.message;
  EXPECT_EQ(sizes, part(0).size() + part(1).size());
  EXPECT_EQ(store.find("local-big")->files.size(), 2U);
}

TEST_F(UrlInstall, AMissingPartIsNoticedBeforeAnythingIsDownloaded) {
  gguf::testing::TestFile file;
  file.text("general.architecture", "llama")
      .entry("split.no", gguf::testing::kU16, gguf::testing::raw<std::uint16_t>(0))
      .entry("split.count", gguf::testing::kU16, gguf::testing::raw<std::uint16_t>(2))
      .tensor("a", 256);
  files = {{"big-00001-of-00002.gguf", file.bytes()}};
  const auto refused = pull("/big-00001-of-00002.gguf");
  ASSERT_FALSE(refused);
  EXPECT_EQ(code(refused), "file_not_on_host");
  EXPECT_THAT(refused.error().error.message, HasSubstr("big-00002-of-00002.gguf"));
  EXPECT_THAT(names_in(store.root()), IsEmpty());
}

TEST_F(UrlInstall, ThereMustBeRoomForTheWholeFile) {
  store.set_free_space_probe([&](const fs::path&) { return 2 * kGiB + files["m.gguf"].size() - 1; });
  EXPECT_EQ(code(pull("/m.gguf")), "insufficient_disk");
  store.set_free_space_probe([&](const fs::path&) { return 2 * kGiB + files["m.gguf"].size(); });
  EXPECT_TRUE(pull("/m.gguf"));
}

TEST_F(UrlInstall, AnotherModelKeepsItsId) {
  ASSERT_TRUE(pull("/a/m.gguf"));
  files["m.gguf"] = tiny_model("llama", 512);
  EXPECT_EQ(code(pull("/b/m.gguf")), "model_exists");
  EXPECT_TRUE(pull("/a/m.gguf")) << "the same address is an update";
}

TEST_F(UrlInstall, WhoNamesThisMachineMayBeLedOnByIt) {
  TestServer other([&](const ServedRequest& request) { return serve(files["m.gguf"], request); });
  trouble = [&](const ServedRequest&) { return downloads::testing::redirect_to(other.url("/m.gguf")); };
  EXPECT_TRUE(pull("/m.gguf"));
}

}  // namespace
}  // namespace gezel::models
