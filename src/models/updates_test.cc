#include "models/updates.h"

#include <gmock/gmock.h>

#include "models/install_test_support.h"

namespace gezel::models {
namespace {

using downloads::testing::serve;
using downloads::testing::ServedRequest;
using downloads::testing::TestServer;
using testing::plan_for;
using testing::tiny_model;

class Updates : public testing::InstallTest {
 protected:
  // A catalog with one item whose file has that digest.
  catalog::Catalog catalog_with(std::string_view version, const std::string& sha256, Bytes size) {
    packed = fmt::format(
        R"({{"schemaVersion":1,"kind":"chat-model","contentVersion":"1.0.0","count":1,"entries":[{{"id":"model-q4",)"
        R"("name":"Model","description":"","maintainer":{{"name":"Org"}},"parameterSize":"1B","supportsTools":true,)"
        R"("versions":[{{"version":"{}","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":{},"llamaCpp":)"
        R"({{"huggingfaceRepo":"org/model","filename":"m.gguf","sha256":"{}","approxSizeBytes":{}}}}}]}}]}})",
        version, size, sha256, size);
    file = {"chat.json", packed};
    return catalog::Catalog({.bundled = {&file, 1}});
  }
  std::string packed;
  catalog::BundledFile file;
  const std::string content = tiny_model("llama", 512);
};

TEST_F(Updates, Case38ANewerVersionOfTheSameFilesIsRecordedOnceAndIsNoUpdate) {
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  ASSERT_TRUE(run(plan_for({{"m.gguf", content}}, server.url(""))));
  // As an older service left it: digests, but no fingerprint.
  auto members = manifest_of();
  members.erase("payloadFingerprint");
  ASSERT_TRUE(write_file_atomic(store.root() / "model-q4" / "manifest.json", to_json(members)));

  const auto catalog = catalog_with("2.0.0", sha256_hex(content), content.size());
  EXPECT_FALSE(check_update(store, store.find("model-q4").value(), catalog, catalog::Backend::llama_cpp)
                   .update_available);
  const auto recorded = store.find("model-q4").value();
  EXPECT_EQ(recorded.payload_fingerprint.size(), 64U);
  EXPECT_EQ(recorded.catalog_version, "1.0.0");
  EXPECT_EQ(check_update(store, recorded, catalog, catalog::Backend::llama_cpp).record_fingerprint, "");
}

TEST_F(Updates, OtherFilesAreAnUpdate) {
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  ASSERT_TRUE(run(plan_for({{"m.gguf", content}}, server.url(""))));
  const auto catalog = catalog_with("2.0.0", std::string(64, 'b'), content.size());
  const auto drift =
      check_update(store, store.find("model-q4").value(), catalog, catalog::Backend::llama_cpp);
  EXPECT_TRUE(drift.update_available);
  EXPECT_EQ(drift.available_version, "2.0.0");
  EXPECT_FALSE(drift.reason.empty());
}

TEST_F(Updates, AnImportHasNone) {
  TestFolder files;
  ASSERT_TRUE(
      store.import({.path = files.write("m.gguf", content).string(), .mode = "copy", .id = "model-q4"}));
  const auto catalog = catalog_with("2.0.0", std::string(64, 'b'), content.size());
  EXPECT_FALSE(check_update(store, store.find("model-q4").value(), catalog, catalog::Backend::llama_cpp)
                   .update_available);
}

}  // namespace
}  // namespace gezel::models
