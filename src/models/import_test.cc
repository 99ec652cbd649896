#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "models/manifest.h"
#include "models/test_home.h"

namespace gezel::models {
namespace {

using ::testing::HasSubstr;
using testing::StoreTest;
using testing::tiny_model;

class Import : public StoreTest {
 protected:
  // Names of everything in the store, hidden entries included.
  std::vector<std::string> store_entries() {
    std::vector<std::string> out;
    std::error_code error;
    for (fs::directory_iterator it(store.root(), error), end; !error && it != end; it.increment(error)) {
      if (it->path().filename() == ".incoming" && fs::is_empty(it->path())) continue;
      out.push_back(it->path().filename().string());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  fs::path write_split_set(std::string_view series, int count) {
    fs::path first;
    for (int i = count; i >= 1; --i) {
      first = files.write(fmt::format("{}-{:05}-of-{:05}.gguf", series, i, count), tiny_model("llama", 64));
    }
    return first;
  }
};

TEST_F(Import, ByReferenceCopiesNothingAndNamesTheFileByItsPath) {
  const fs::path file = files.write("My Model.Q4_K_M.gguf", tiny_model());
  const auto model = import(file);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->id, "local-my-model.q4-k-m");
  EXPECT_EQ(model->source, "external");
  EXPECT_EQ(model->weights, file);
  EXPECT_EQ(store_entries(), std::vector<std::string>{"local-my-model.q4-k-m"});
  EXPECT_EQ(std::distance(fs::directory_iterator(store.root() / model->id), fs::directory_iterator()), 1);
}

TEST_F(Import, ReadsWhatTheHeaderSays) {
  const auto model = import(files.write("x.gguf", tiny_model()));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "Tiny");
  EXPECT_EQ(model->architecture, "llama");
  EXPECT_EQ(model->quantization, "Q4_K_M");
  EXPECT_EQ(model->context_window, 4096);
  EXPECT_TRUE(model->chat_template_present);
  EXPECT_EQ(model->size_bytes, tiny_model().size());
}

TEST_F(Import, CopyHashesAndLeavesTheSource) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto model = import(file, "copy");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->weights, store.root() / "local-a" / "a.gguf");
  EXPECT_EQ(read_file(model->weights).value(), tiny_model());
  EXPECT_EQ(model->sha256.at("a.gguf"), sha256_hex(tiny_model()));
  EXPECT_EQ(store.check(*model), Integrity::unchanged);
  EXPECT_TRUE(fs::exists(file));
  EXPECT_FALSE(string_or(manifest_of("local-a"), "payloadFingerprint").empty());
}

TEST_F(Import, LinkSharesTheFile) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto model = import(file, "link");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(fs::equivalent(file, model->weights));
  EXPECT_EQ(fs::hard_link_count(file), 2U);
}

TEST_F(Import, LinkFollowsASymbolicLinkToItsFile) {
  const fs::path file = files.write("blob", tiny_model());
  fs::create_symlink(file, files.path() / "named.gguf");
  const auto model = import(files.path() / "named.gguf", "link");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(fs::is_symlink(model->weights));
  EXPECT_TRUE(fs::equivalent(file, model->weights));
}

TEST_F(Import, MoveRemovesTheSource) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto model = import(file, "move");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(read_file(model->weights).value(), tiny_model());
}

TEST_F(Import, TakesTheGivenIdAndName) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto model = store.import(
      {.path = file.string(), .mode = "link", .id = "smollm2:135m", .name = "Smol\n2", .mmproj = {}});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->id, "smollm2:135m");
  EXPECT_EQ(model->name, "Smol 2");
}

TEST_F(Import, NumbersIdsThatCollide) {
  EXPECT_EQ(import(files.write("x/a.gguf", tiny_model()))->id, "local-a");
  EXPECT_EQ(import(files.write("y/A.gguf", tiny_model()))->id, "local-a-2");
  EXPECT_EQ(import(files.write("z/a.gguf", tiny_model()))->id, "local-a-3");
}

TEST_F(Import, TakesAllPartsOfASplitSetFromAnyOfThem) {
  write_split_set("big", 3);
  const auto model = import(files.path() / "big-00002-of-00003.gguf", "copy");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->id, "local-big");
  EXPECT_EQ(model->files.size(), 3U);
  EXPECT_EQ(model->weights.filename(), "big-00001-of-00003.gguf");
  EXPECT_EQ(model->sha256.size(), 3U);
}

TEST_F(Import, Case50ListsMissingPartsOfASplitSet) {
  write_split_set("big", 3);
  fs::remove(files.path() / "big-00003-of-00003.gguf");
  const auto model = import(files.path() / "big-00002-of-00003.gguf");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "missing_parts");
  EXPECT_EQ(model.error().param, "path");
  EXPECT_THAT(model.error().message, HasSubstr("big-00003-of-00003.gguf"));
}

TEST_F(Import, AFolderWithOneModelIsThatModel) {
  write_split_set("big", 2);
  files.write("mmproj-big.gguf", tiny_model("clip"));
  files.write("big-imatrix.gguf", tiny_model());
  const auto model = import(files.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->id, "local-big");
}

TEST_F(Import, AFolderWithSeveralModelsListsThem) {
  files.write("a.gguf", tiny_model());
  files.write("b.gguf", tiny_model());
  const auto model = import(files.path());
  EXPECT_EQ(error_code(model), "not_a_model");
  EXPECT_THAT(model.error().message, HasSubstr("a.gguf, b.gguf"));
  EXPECT_EQ(store.importable(files.path().string())->size(), 2U);
}

TEST_F(Import, AnMlxFolderIsNotForThisEngine) {
  files.write("config.json", "{}");
  files.write("model.safetensors", "x");
  EXPECT_EQ(error_code(import(files.path())), "unsupported_backend");
}

TEST_F(Import, InstallsAProjectorOnlyWhenAsked) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const fs::path projector = files.write("mmproj.gguf", tiny_model("clip"));
  EXPECT_TRUE(import(file, "copy", "plain")->projector.empty());
  const auto model = store.import(
      {.path = file.string(), .mode = "copy", .id = "seeing", .name = {}, .mmproj = projector.string()});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->projector.filename(), "mmproj.gguf");
  EXPECT_EQ(model->files.size(), 2U);
}

TEST_F(Import, ErrorsNameTheFieldAndLeaveNothingBehind) {
  const fs::path good = files.write("good.gguf", tiny_model());
  const fs::path projector = files.write("p.gguf", tiny_model("clip"));
  files.write("empty.gguf", "");
  files.write("text.gguf", "this is no model at all, but long enough to hold a header");
  files.write("cut.gguf", tiny_model("llama", 4096).substr(0, 600));
  fs::create_directories(files.path() / "nothing");
  struct Case {
    std::string path, mode, id, mmproj, code, param;
  };
  const std::string folder = files.path().string();
  const std::vector<Case> table = {
      {"good.gguf", "reference", "", "", "invalid_path", "path"},
      {"", "reference", "", "", "invalid_path", "path"},
      {"/" + std::string(5000, 'a'), "reference", "", "", "invalid_path", "path"},
      {folder + "/absent.gguf", "reference", "", "", "file_not_found", "path"},
      {folder + "/nothing", "reference", "", "", "not_a_model", "path"},
      {folder + "/empty.gguf", "reference", "", "", "model-invalid", "path"},
      {folder + "/text.gguf", "copy", "", "", "model-invalid", "path"},
      {folder + "/cut.gguf", "move", "", "", "model-invalid", "path"},
      {projector.string(), "reference", "", "", "not_a_model", "path"},
      {good.string(), "teleport", "", "", "invalid_mode", "mode"},
      {good.string(), "copy", "../other", "", "invalid-model-id", "id"},
      {good.string(), "copy", "a/b", "", "invalid-model-id", "id"},
      {good.string(), "copy", ".hidden", "", "invalid-model-id", "id"},
      {good.string(), "copy", "", good.string(), "not_a_model", "mmproj"},
      {good.string(), "copy", "", folder + "/absent.gguf", "file_not_found", "mmproj"},
  };
  for (const Case& row : table) {
    const auto model =
        store.import({.path = row.path, .mode = row.mode, .id = row.id, .name = {}, .mmproj = row.mmproj});
    ASSERT_FALSE(model) << row.path;
    EXPECT_EQ(model.error().code, row.code) << row.path << ": " << model.error().message;
    EXPECT_EQ(model.error().param, row.param) << row.path;
    EXPECT_EQ(model.error().kind, ErrorKind::invalid) << row.path;
  }
  EXPECT_TRUE(store_entries().empty());
  EXPECT_TRUE(fs::exists(files.path() / "cut.gguf"));
}

TEST_F(Import, RefusesAFileThatIsAlreadyImported) {
  const fs::path file = files.write("a.gguf", tiny_model());
  for (const std::string mode : {"reference", "copy", "link"}) {
    ASSERT_TRUE(import(file, mode, "id-" + mode));
    const auto again = import(file, mode, "id-" + mode);
    EXPECT_EQ(error_code(again), "already_imported") << mode;
    EXPECT_EQ(again.error().kind, ErrorKind::conflict);
    EXPECT_THAT(again.error().message, HasSubstr("id-" + mode));
  }
  EXPECT_EQ(error_code(import(file)), "already_imported");
}

TEST_F(Import, AllowsASecondIdForTheSameFileWhenAsked) {
  const fs::path file = files.write("a.gguf", tiny_model());
  ASSERT_TRUE(import(file));
  EXPECT_EQ(import(file, "reference", "again")->id, "again");
}

TEST_F(Import, RefusesAnIdThatAnotherModelHas) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "taken"));
  for (const std::string id : {"taken", "TAKEN"}) {
    const auto other = import(files.write("b.gguf", tiny_model("llama", 128)), "copy", id);
    EXPECT_EQ(error_code(other), "model_exists") << id;
  }
  EXPECT_EQ(store.find("taken")->weights.filename(), "a.gguf");
}

TEST_F(Import, NeverTouchesAFolderThatIsNoInstall) {
  home.write("engines/llama-cpp/models/mine/notes.txt", "hand made");
  EXPECT_EQ(error_code(import(files.write("a.gguf", tiny_model()), "copy", "mine")), "model_exists");
  EXPECT_TRUE(fs::exists(store.root() / "mine/notes.txt"));
}

TEST_F(Import, RefusesAFileInsideTheStore) {
  const auto model = import(files.write("a.gguf", tiny_model()), "copy");
  EXPECT_EQ(error_code(import(model->weights)), "inside_store");
  fs::create_symlink(model->weights, files.path() / "way-in.gguf");
  EXPECT_EQ(error_code(import(files.path() / "way-in.gguf", "copy")), "inside_store");
}

TEST_F(Import, AChangedReferenceIsRecordedAnewUnderItsId) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto first = import(file);
  ASSERT_TRUE(store.verify(*first));
  clock.advance(Millis(5000));
  files.write("a.gguf", tiny_model("llama", 128));
  ASSERT_FALSE(store.verify(*store.find("local-a")));
  ASSERT_EQ(error_code(store.find("local-a")), "model-invalid");

  const auto again = import(file);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->id, "local-a");
  EXPECT_NE(again->installed_at, first->installed_at);
  EXPECT_EQ(store.check(*again), Integrity::unverified);
  EXPECT_TRUE(store.verify(*again));
  EXPECT_EQ(store.check(*store.find("local-a")), Integrity::unchanged);
  EXPECT_EQ(store_entries(), std::vector<std::string>{"local-a"});
}

TEST_F(Import, ReplacesAModelThatCannotBeUsed) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto model = import(file, "copy", "m");
  fs::remove(model->weights);
  ASSERT_EQ(error_code(store.find("m")), "model-invalid");
  EXPECT_TRUE(import(files.write("b.gguf", tiny_model()), "copy", "m"));
  EXPECT_EQ(store.find("m")->weights.filename(), "b.gguf");
}

TEST_F(Import, NeedsHeadRoomForACopyAndNoneForALink) {
  const fs::path file = files.write("a.gguf", tiny_model());
  store.set_free_space_probe([](const fs::path&) { return std::optional<Bytes>(2 * kGiB); });
  const auto copy = import(file, "copy");
  EXPECT_EQ(error_code(copy), "insufficient_disk");
  EXPECT_THAT(copy.error().message, HasSubstr("2.0 GiB"));
  EXPECT_TRUE(import(file, "link", "linked"));
  store.set_free_space_probe([](const fs::path&) { return std::nullopt; });
  EXPECT_TRUE(import(file, "copy", "copied"));
}

TEST_F(Import, CancelledInMidCopyLeavesNothing) {
  const fs::path file = files.write("a.gguf", tiny_model());
  const auto model = store.import({.path = file.string(), .mode = "copy", .id = {}, .name = {}, .mmproj = {}},
                                  [](Bytes) { return false; });
  EXPECT_EQ(error_code(model), "cancelled");
  EXPECT_TRUE(store_entries().empty());
  EXPECT_TRUE(import(file, "copy"));
}

// Every way to import a file's bytes, and every way in which that file may become another meanwhile.
class ImportOfAChangingFile : public Import {
 protected:
  const fs::path file = files.write("a.gguf", tiny_model());

  // As a download does that reserved its space first: neither the size nor the inode tells.
  void write_in_place() {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).write("GGUF", 4);
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  }
  void replace() {
    const auto written = fs::last_write_time(file);
    fs::rename(files.write("other", tiny_model()), file);
    fs::last_write_time(file, written);
  }
  void expect_refused(const std::string& mode, const std::function<void()>& change) {
    bool changed = false;
    const auto model = store.import({.path = file.string(), .mode = mode}, [&](Bytes) {
      if (!std::exchange(changed, true)) change();
      return true;
    });
    EXPECT_EQ(error_code(model), "model_changing") << mode;
    EXPECT_TRUE(fs::exists(file)) << mode;
    EXPECT_TRUE(store_entries().empty()) << mode;
  }
};

TEST_F(ImportOfAChangingFile, IsRefusedWhereItIsStillWritten) {
  for (const char* mode : {"link", "copy", "move"}) expect_refused(mode, [&] { write_in_place(); });
}

TEST_F(ImportOfAChangingFile, IsRefusedWhereAnotherGetsItsName) {
  for (const char* mode : {"link", "copy", "move"}) expect_refused(mode, [&] { replace(); });
}

TEST_F(ImportOfAChangingFile, AMoveLeavesWhatGotItsNameAfterwards) {
  ASSERT_TRUE(import(file, "copy", "m"));
  write_in_place();
  // What an import replaces is removed when the new model is published already.
  store.set_remover([&](const fs::path& folder) {
    fs::remove_all(folder);
    replace();
  });
  ASSERT_TRUE(import(file, "move", "m"));
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(Import, ReportsProgressOverAllFiles) {
  write_split_set("big", 2);
  std::vector<Bytes> seen;
  const auto model = store.import({.path = (files.path() / "big-00001-of-00002.gguf").string(),
                                   .mode = "copy",
                                   .id = {},
                                   .name = {},
                                   .mmproj = {}},
                                  [&](Bytes bytes) {
                                    seen.push_back(bytes);
                                    return true;
                                  });
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), model->size_bytes);
}

TEST_F(Import, RefusesAStoreWhoseFolderIsALink) {
  const fs::path outside = files.path() / "outside";
  fs::create_directories(outside);
  fs::create_directories(home.path() / "engines");
  fs::create_directory_symlink(outside, home.path() / "engines/llama-cpp");
  EXPECT_EQ(error_code(import(files.write("a.gguf", tiny_model()), "copy")), "unsafe_path");
  EXPECT_TRUE(fs::is_empty(outside));
}

TEST_F(Import, ReferencesAFileThroughAFolderLink) {
  const fs::path file = files.write("real/a.gguf", tiny_model());
  fs::create_directory_symlink(files.path() / "real", files.path() / "alias");
  const auto model = import(files.path() / "alias/a.gguf");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(fs::equivalent(model->weights, file));
}

// Several callers at once, as pool threads of a daemon are: every import gets an id of its own and nothing is
// lost.
TEST_F(Import, SideBySideEachGetsItsOwnId) {
  constexpr int kThreads = 4;
  std::vector<fs::path> sources;
  for (int i = 0; i < kThreads; ++i)
    sources.push_back(files.write(fmt::format("{}/a.gguf", i), tiny_model()));
  std::vector<Result<InstalledModel>> results(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        results[i] = import(sources[i], i % 2 == 0 ? "copy" : "reference");
        if (results[i]) (void)store.verify(*results[i]);
      });
    }
  }
  std::set<std::string> ids;
  for (const auto& result : results) {
    ASSERT_TRUE(result) << result.error().message;
    ids.insert(result->id);
    EXPECT_EQ(store.check(*store.find(result->id)), Integrity::unchanged);
  }
  EXPECT_EQ(ids, (std::set<std::string>{"local-a", "local-a-2", "local-a-3", "local-a-4"}));
}

TEST_F(Import, SideBySideOneOfTwoGetsAnIdThatBothWant) {
  const fs::path first = files.write("1/a.gguf", tiny_model()),
                 second = files.write("2/a.gguf", tiny_model());
  std::vector<Result<InstalledModel>> results(2);
  {
    const std::jthread one([&] { results[0] = import(first, "copy", "wanted"); });
    const std::jthread two([&] { results[1] = import(second, "copy", "wanted"); });
  }
  EXPECT_NE(results[0].has_value(), results[1].has_value());
  EXPECT_EQ(error_code(results[0]) + error_code(results[1]), "model_exists");
  EXPECT_TRUE(store.find("wanted"));
}

}  // namespace
}  // namespace gezel::models
