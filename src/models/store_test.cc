#include "models/store.h"

#include <gmock/gmock.h>

#include "models/test_home.h"

namespace gezel::models {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::StoreTest;
using testing::tiny_model;

class Store : public StoreTest {};

TEST_F(Store, AnAbsentStoreIsEmpty) {
  EXPECT_TRUE(store.inventory().installed.empty());
  EXPECT_TRUE(store.inventory().unrecognized.empty());
}

TEST_F(Store, ListsModelsByName) {
  for (const std::string name : {"Zeta", "Alpha", "Mid"}) {
    ASSERT_TRUE(store.import({.path = files.write(name + ".gguf", tiny_model()).string(),
                              .mode = "copy",
                              .id = {},
                              .name = name,
                              .mmproj = {}}));
  }
  std::vector<std::string> names;
  for (const auto& model : store.inventory().installed) names.push_back(model.name);
  EXPECT_EQ(names, (std::vector<std::string>{"Alpha", "Mid", "Zeta"}));
}

TEST_F(Store, FindsByExactIdAndSuggestsNearOnes) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "smollm2-135m"));
  EXPECT_EQ(store.find("smollm2-135m")->id, "smollm2-135m");
  const auto missed = store.find("smolm2-135m");
  EXPECT_EQ(error_code(missed), "model_not_found");
  EXPECT_THAT(missed.error().message, HasSubstr("smollm2-135m"));
  EXPECT_EQ(store.near_misses("smolm2-135m"), std::vector<std::string>{"smollm2-135m"});
}

TEST_F(Store, AnUnsafeIdIsOnlyNotFound) {
  files.write("a.gguf", tiny_model());
  for (const std::string id : {"../../secret", "", "a/b", ".incoming"})
    EXPECT_EQ(error_code(store.find(id)), "model_not_found") << id;
}

TEST_F(Store, IgnoresHiddenFoldersAndFoldersWithoutManifest) {
  home.write("engines/llama-cpp/models/.secret/manifest.json", "{}");
  home.write("engines/llama-cpp/models/partial/x.gguf.partial", "x");
  EXPECT_TRUE(store.inventory().installed.empty());
  EXPECT_TRUE(store.inventory().unrecognized.empty());
}

TEST_F(Store, ListsUnusableManifestsWithTheReasonLargestFirst) {
  home.write("engines/llama-cpp/models/broken/manifest.json", "{");
  home.write("engines/llama-cpp/models/other/manifest.json", R"({"id":"x"})");
  home.write("engines/llama-cpp/models/other/x.gguf", "12345");
  const auto unrecognized = store.inventory().unrecognized;
  ASSERT_EQ(unrecognized.size(), 2U);
  EXPECT_EQ(unrecognized[0].id, "other");
  EXPECT_EQ(unrecognized[0].bytes, 5U);
  EXPECT_THAT(unrecognized[1].reason, HasSubstr("manifest.json"));
}

TEST_F(Store, AMissingReferenceIsUnrecognizedWithItsPathAndItsNameForTheNetwork) {
  const fs::path file = files.write("gone.gguf", tiny_model());
  ASSERT_TRUE(import(file));
  fs::remove(file);
  EXPECT_THAT(store.inventory().unrecognized.at(0).reason, HasSubstr(file.string()));
  const auto found = store.find("local-gone");
  EXPECT_EQ(error_code(found), "model-invalid");
  EXPECT_THAT(found.error().message, HasSubstr("gone.gguf"));
  EXPECT_THAT(found.error().message, Not(HasSubstr(files.path().string())));
}

TEST_F(Store, RefusesLinksInsideTheStore) {
  const auto model = import(files.write("a.gguf", tiny_model()), "copy", "m");
  const fs::path secret = files.write("secret", "secret");
  fs::remove(model->weights);
  fs::create_symlink(secret, model->weights);
  EXPECT_EQ(error_code(store.find("m")), "model-invalid");
  fs::rename(store.root() / "m", files.path() / "m");
  fs::create_directory_symlink(files.path() / "m", store.root() / "m");
  EXPECT_EQ(error_code(store.find("m")), "model-invalid");
}

TEST_F(Store, AnEmptyFileIsUnusable) {
  const auto model = import(files.write("a.gguf", tiny_model()), "copy", "m");
  fs::resize_file(model->weights, 0);
  EXPECT_THAT(store.find("m").error().message, HasSubstr("is empty"));
}

TEST_F(Store, AReferenceIsUnverifiedUntilItWasHashed) {
  const auto model = import(files.write("a.gguf", tiny_model()));
  EXPECT_EQ(store.check(*model), Integrity::unverified);
  ASSERT_TRUE(store.verify(*model));
  const auto verified = store.find("local-a");
  EXPECT_EQ(store.check(*verified), Integrity::unchanged);
  EXPECT_EQ(verified->sha256.begin()->second, sha256_hex(tiny_model()));
  EXPECT_EQ(string_or(manifest_of("local-a"), "sha256"), sha256_hex(tiny_model()));
  EXPECT_FALSE(string_or(manifest_of("local-a"), "payloadFingerprint").empty());
}

TEST_F(Store, ATouchedFileIsHashedAgainAndTrustedWhenEqual) {
  const auto model = import(files.write("a.gguf", tiny_model()), "copy");
  fs::last_write_time(model->weights, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(store.check(*model), Integrity::changed);
  ASSERT_TRUE(store.verify(*model));
  EXPECT_EQ(store.check(*store.find(model->id)), Integrity::unchanged);
}

TEST_F(Store, AChangedFileIsRefusedWithBothDigestsUntilItIsImportedAgain) {
  const fs::path file = files.write("a.gguf", tiny_model());
  ASSERT_TRUE(store.verify(*import(file)));
  std::string damaged = tiny_model();
  damaged.back() = 'x';
  files.write("a.gguf", damaged);
  const auto model = store.find("local-a");
  ASSERT_TRUE(model);
  EXPECT_EQ(store.check(*model), Integrity::changed);
  const auto verdict = store.verify(*model);
  EXPECT_EQ(error_code(verdict), "model-invalid");
  EXPECT_THAT(verdict.error().message, HasSubstr(sha256_hex(tiny_model())));
  EXPECT_THAT(verdict.error().message, HasSubstr(sha256_hex(damaged)));
  EXPECT_EQ(store.find("local-a").error().message, verdict.error().message);
  EXPECT_THAT(store.inventory().unrecognized.at(0).reason, HasSubstr(sha256_hex(damaged)));
  EXPECT_TRUE(import(file));
}

TEST_F(Store, AFileThatGrewBeforeItWasEverHashedIsRefused) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model())));
  files.write("a.gguf", tiny_model("llama", 4096));
  const auto verdict = store.verify(*store.find("local-a"));
  EXPECT_EQ(error_code(verdict), "model-invalid");
  EXPECT_THAT(verdict.error().message, HasSubstr("bytes"));
}

TEST_F(Store, VerifyingCanBeCancelled) {
  const auto model = import(files.write("a.gguf", tiny_model()));
  EXPECT_EQ(error_code(store.verify(*model, [](Bytes) { return false; })), "cancelled");
  EXPECT_EQ(store.check(*store.find("local-a")), Integrity::unverified);
}

TEST_F(Store, AResultAboutAnEarlierInstallIsDropped) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto old = import(file);
  clock.advance(Millis(1000));
  files.write("a.gguf", tiny_model("llama", 128));
  ASSERT_TRUE(import(file));
  EXPECT_EQ(error_code(store.verify(*old)), "model_changing");
  EXPECT_TRUE(store.find("local-a"));
}

TEST_F(Store, KeepsMembersItDoesNotKnow) {
  const auto model = import(files.write("a.gguf", tiny_model()));
  json::object members = manifest_of("local-a");
  members["fromTheFuture"] = 7;
  home.write("engines/llama-cpp/models/local-a/manifest.json", to_json(members));
  ASSERT_TRUE(store.verify(*model));
  EXPECT_EQ(int_or(manifest_of("local-a"), "fromTheFuture", 0), 7);
}

// A crash between the two renames of a publish, before the second.
TEST_F(Store, BringsBackAModelWhoseReplacementWasInterrupted) {
  const auto model = import(files.write("a.gguf", tiny_model()), "copy", "m");
  fs::rename(store.root() / "m", store.root() / ".m.backup-1234");
  store.recover();
  EXPECT_TRUE(store.find("m"));
  EXPECT_FALSE(fs::exists(store.root() / ".m.backup-1234"));
}

// A crash after the second rename: the new model stands, the backup is superseded.
TEST_F(Store, DropsABackupWhoseReplacementIsInPlace) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  fs::copy(store.root() / "m", store.root() / ".m.backup-1234");
  store.recover();
  EXPECT_TRUE(store.find("m"));
  EXPECT_FALSE(fs::exists(store.root() / ".m.backup-1234"));
}

TEST_F(Store, KeepsABackupWhileWhatReplacedItIsBroken) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  fs::rename(store.root() / "m", store.root() / ".m.backup-1234");
  home.write("engines/llama-cpp/models/m/manifest.json", "{");
  store.recover();
  EXPECT_TRUE(fs::exists(store.root() / ".m.backup-1234"));
}

TEST_F(Store, ClearsStagingOfACrashedImportButNoDownload) {
  home.write("engines/llama-cpp/models/.incoming/.import-m/half.gguf", "x");
  home.write("engines/llama-cpp/models/.incoming/other/x.gguf.partial", "x");
  store.recover();
  EXPECT_FALSE(fs::exists(store.root() / ".incoming/.import-m"));
  EXPECT_TRUE(fs::exists(store.root() / ".incoming/other/x.gguf.partial"));
}

}  // namespace
}  // namespace gezel::models
