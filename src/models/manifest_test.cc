#include "models/manifest.h"

#include <gtest/gtest.h>

namespace gezel::models {
namespace {

TEST(Manifest, IsAcceptedOrRefusedAsTheTableSays) {
  const auto table = parse_json(read_file(GEZEL_TESTDATA "/models/manifests.json").value()).value();
  for (const auto& row : table.as_array()) {
    const auto parsed = parse_manifest(to_json(row.at("manifest")), "/store/m");
    EXPECT_EQ(parsed.has_value(), row.at("valid").as_bool()) << row.at("what").as_string();
    if (!parsed) EXPECT_EQ(parsed.error().code, "model-invalid");
  }
}

ManifestDraft draft() {
  ManifestDraft out;
  out.id = "m";
  out.name = "M";
  out.installed_at = "2026-01-01T00:00:00.000Z";
  out.source = "import";
  out.files = {"/store/m/b-00001-of-00002.gguf", "/store/m/b-00002-of-00002.gguf", "/store/m/a-mmproj.gguf"};
  out.stamps = {{10, 1, 100}, {20, 2, 200}, {30, 3, 300}};
  out.sha256 = {std::string(64, 'b'), std::string(64, 'c'), std::string(64, 'a')};
  out.projector = out.files.back();
  out.architecture = "llama";
  out.quantization = "Q4_K_M";
  out.context_window = 8192;
  out.chat_template_present = true;
  return out;
}

TEST(Manifest, ReadsBackWhatADraftWrote) {
  const auto parsed = parse_manifest(to_json(draft_manifest(draft())), "/store/m");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->model.files, draft().files);
  EXPECT_EQ(parsed->model.weights, draft().files.front());
  EXPECT_EQ(parsed->model.projector, draft().projector);
  EXPECT_EQ(parsed->model.quantization, "Q4_K_M");
  EXPECT_EQ(parsed->model.context_window, 8192);
  EXPECT_TRUE(parsed->model.chat_template_present);
  EXPECT_EQ(parsed->model.sha256.at("a-mmproj.gguf"), std::string(64, 'a'));
  EXPECT_EQ(parsed->model.stamps.at("b-00002-of-00002.gguf"), (FileStamp{20, 2, 200}));
}

TEST(Manifest, SortsTheDigestsByFileName) {
  const json::object members = draft_manifest(draft());
  std::vector<std::string> names;
  for (const auto& entry : *object_at(members, "fileSha256")) names.emplace_back(entry.key());
  EXPECT_EQ(names,
            (std::vector<std::string>{"a-mmproj.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf"}));
}

TEST(Manifest, RecordsTheDigestOfEveryShard) {
  const json::object members = draft_manifest(draft());
  EXPECT_EQ(string_or(members, "sha256"), std::string(64, 'b'));
  EXPECT_EQ(members.at("shards").at(1).at("sha256").as_string(), std::string(64, 'c'));
  EXPECT_EQ(members.at("shards").at(1).at("sizeBytes").to_number<int>(), 20);
  EXPECT_EQ(members.at("approxSizeBytes").to_number<int>(), 60);
}

TEST(Manifest, FingerprintDependsOnNamesAndDigestsButNotOnTheirOrder) {
  const std::pair<std::string, std::string> a{"a", "1"}, b{"b", "2"};
  EXPECT_EQ(payload_fingerprint("", {a, b}), payload_fingerprint("", {b, a}));
  EXPECT_NE(payload_fingerprint("", {a, b}), payload_fingerprint("", {a}));
  EXPECT_NE(payload_fingerprint("", {a}), payload_fingerprint("org/repo", {a}));
}

TEST(Manifest, KeepsARefusal) {
  json::object members = draft_manifest(draft());
  record_refusal(members, {"a.gguf", "SHA-256 aa", "SHA-256 bb"}, "2026-01-02T00:00:00.000Z");
  const auto parsed = parse_manifest(to_json(members), "/store/m");
  ASSERT_TRUE(parsed && parsed->refused);
  EXPECT_EQ(parsed->refused->actual, "SHA-256 bb");
}

}  // namespace
}  // namespace gezel::models
