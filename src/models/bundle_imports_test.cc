#include "models/bundle_imports.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/bundle_test_support.h"
#include "models/install_test_support.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RawBundle;
using testing::tiny_model;

constexpr std::string_view kId = "00112233-4455-6677-8899-aabbccddeeff";

class BundleImport : public testing::StoreTest {
 protected:
  std::string write(const std::string& bytes) { return files.write("notes.gezmodel", bytes).string(); }
  Result<BundleReview> scan(const std::string& bytes) {
    GEZEL_CHECK(imports.begin(id));
    return imports.scan(id, write(bytes), store);
  }
  Result<InstalledModel> confirm(bool replace = false) {
    testing::RememberingObserver observer;
    return imports.confirm(id, replace, store, observer, {});
  }
  std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      out.push_back(entry.path().filename().string());
    std::ranges::sort(out);
    return out;
  }

  const std::string id{kId};
  BundleImports imports{home.path(), clock, entropy};
};

TEST_F(BundleImport, IsLookedAtAndThenConfirmed) {
  const auto review = scan(RawBundle::of().bytes());
  ASSERT_TRUE(review) << review.error().message;
  EXPECT_EQ(review->manifest.id, "notes");
  EXPECT_FALSE(review->replaces);
  EXPECT_THAT(names_in(store.root()), IsEmpty()) << "nothing touches the store before";
  const auto model = confirm();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->id, "notes");
  EXPECT_EQ(model->source, "bundle");
  EXPECT_EQ(model->name, "Notes");
  EXPECT_EQ(read_file(model->weights).value(), tiny_model());
  EXPECT_EQ(store.check(*model), Integrity::unchanged);
  EXPECT_THAT(names_in(imports.root()), IsEmpty());
  EXPECT_TRUE(fs::exists(files.path() / "notes.gezmodel")) << "the archive is somebody else's";
  EXPECT_EQ(confirm().error().code, "import_not_found");
}

TEST_F(BundleImport, AnUploadLiesInItsOwnFolderUntilThen) {
  const auto archive = imports.begin(id);
  ASSERT_TRUE(archive);
  ASSERT_TRUE(write_file_atomic(*archive, RawBundle::of().bytes()));
  ASSERT_TRUE(imports.scan(id, {}, store));
  ASSERT_TRUE(confirm());
  EXPECT_THAT(names_in(imports.root()), IsEmpty());
}

TEST_F(BundleImport, SurvivesARestartInBetween) {
  ASSERT_TRUE(scan(RawBundle::of().bytes()));
  const BundleImports next(home.path(), clock, entropy);
  next.remove_stale({});
  EXPECT_TRUE(confirm());
}

TEST_F(BundleImport, ABadOneLeavesNothing) {
  auto raw = RawBundle::of();
  raw.entries[0].content.back() = static_cast<char>(raw.entries[0].content.back() ^ 1);
  EXPECT_EQ(scan(raw.bytes()).error().code, "hash_mismatch");
  EXPECT_THAT(names_in(imports.root()), IsEmpty());
  EXPECT_EQ(confirm().error().code, "import_not_found");
  EXPECT_EQ(scan("nonsense").error().code, "invalid_bundle");
  EXPECT_THAT(names_in(imports.root()), IsEmpty());
  EXPECT_THAT(names_in(store.root()), IsEmpty());
}

TEST_F(BundleImport, AnIdThatIsTakenIsReplacedOnlyOnPurpose) {
  const auto path = files.write("m.gguf", tiny_model("llama", 512));
  ASSERT_TRUE(import(path, "copy", "notes"));
  const auto review = scan(RawBundle::of().bytes());
  ASSERT_TRUE(review);
  EXPECT_TRUE(review->replaces);
  EXPECT_EQ(confirm().error().code, "model_exists");
  EXPECT_EQ(read_file(store.find("notes")->weights).value(), tiny_model("llama", 512));
  const auto model = confirm(true);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(read_file(model->weights).value(), tiny_model());
}

TEST_F(BundleImport, AModelMadeElsewhereIsUpdatedFromTheCatalog) {
  auto raw = RawBundle::of(tiny_model(), "model-q4");
  raw.entries[1].content = to_json(json::object{{"id", "model-q4"},
                                                {"name", "Notes"},
                                                {"weightsFilename", "notes.gguf"},
                                                {"catalogId", "model-q4"},
                                                {"huggingfaceRepo", "org/model"},
                                                {"revision", "main"},
                                                {"quantization", "Q4_K_M"}});
  raw.manifest.files[1].size_bytes = raw.entries[1].content.size();
  raw.manifest.files[1].sha256 = sha256_hex(raw.entries[1].content);
  raw.manifest.catalog_version = "1.0.0";
  ASSERT_TRUE(scan(raw.bytes()));
  const auto model = confirm();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->catalog_id, "model-q4");
  EXPECT_EQ(model->catalog_version, "1.0.0");
  EXPECT_EQ(model->repository, "org/model");
  EXPECT_EQ(model->quantization, "Q4_K_M");
  EXPECT_TRUE(check_owner(*model, testing::plan_for({{"m.gguf", "x"}}, "http://127.0.0.1:1")));
}

TEST_F(BundleImport, WhatChangedSinceItWasLookedAtIsNotTaken) {
  ASSERT_TRUE(scan(RawBundle::of().bytes()));
  write(RawBundle::of(tiny_model("llama", 512)).bytes());
  EXPECT_EQ(confirm().error().code, "bundle_changed");
  fs::remove(files.path() / "notes.gezmodel");
  EXPECT_EQ(confirm().error().code, "bundle_changed");
  EXPECT_THAT(names_in(store.root()), IsEmpty());
}

TEST_F(BundleImport, AByteThatChangesInPlaceIsNoticedBeforeItIsPublished) {
  const std::string bytes = RawBundle::of().bytes();
  ASSERT_TRUE(scan(bytes));
  const fs::path path = files.path() / "notes.gezmodel";
  const auto time = fs::last_write_time(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bytes.find("token_embd")));
    file.put('T');
  }
  fs::last_write_time(path, time);  // as if nothing had been
  EXPECT_FALSE(confirm());
  EXPECT_FALSE(store.find("notes"));
}

TEST_F(BundleImport, CanBeDiscardedAndGrowsOld) {
  ASSERT_TRUE(scan(RawBundle::of().bytes()));
  ASSERT_TRUE(imports.discard(id));
  EXPECT_EQ(imports.discard(id).error().code, "import_not_found");
  ASSERT_TRUE(scan(RawBundle::of().bytes()));
  clock.advance(kKeepReview);
  imports.remove_stale({});
  EXPECT_THAT(names_in(imports.root()), ElementsAre(id));
  clock.advance(Millis(1));
  EXPECT_EQ(confirm().error().code, "import_not_found");
  imports.remove_stale({id});
  EXPECT_THAT(names_in(imports.root()), ElementsAre(id)) << "somebody works on it";
  imports.remove_stale({});
  EXPECT_THAT(names_in(imports.root()), IsEmpty());
}

TEST_F(BundleImport, WhatWasCutOffIsRemovedAtTheNextStart) {
  const auto archive = imports.begin(id);
  ASSERT_TRUE(write_file_atomic(*archive, "half of an arch"));
  imports.remove_stale({});
  EXPECT_THAT(names_in(imports.root()), IsEmpty());
}

TEST_F(BundleImport, IdsAreUuidsAndTakenOnce) {
  for (const char* bad : {"", "x", "../../../../etc", "00112233-4455-6677-8899-AABBCCDDEEFF",
                          "00112233445566778899aabbccddeeff0000"}) {
    EXPECT_EQ(imports.begin(bad).error().code, "invalid_import_id") << bad;
    EXPECT_EQ(imports.discard(bad).error().code, "import_not_found") << bad;
  }
  ASSERT_TRUE(imports.begin(id));
  EXPECT_EQ(imports.begin(id).error().code, "import_exists");
}

TEST_F(BundleImport, OnlySoManyWait) {
  SystemEntropy random;
  for (std::size_t i = 0; i < kMaxReviews; ++i) ASSERT_TRUE(imports.begin(new_uuid(random)));
  EXPECT_EQ(imports.begin(id).error().code, "too_many_imports");
}

TEST_F(BundleImport, ThereMustBeRoomForTheModel) {
  store.set_free_space_probe([](const fs::path&) { return 2 * kGiB; });
  ASSERT_TRUE(scan(RawBundle::of().bytes()));
  EXPECT_EQ(confirm().error().code, "insufficient_disk");
  EXPECT_THAT(names_in(imports.root()), ElementsAre(id)) << "once there is room it can be confirmed";
}

// The process ends after each step of a confirm.
TEST_F(BundleImport, AtEveryStepOfAConfirmTheStoreIsCleanOrTheImportGoesOn) {
  const std::string old = tiny_model("llama", 512);
  int steps = 0;
  for (bool completed = false; !completed; ++steps) {
    ASSERT_LT(steps, 100);
    for (const auto& entry : fs::directory_iterator(home.path())) fs::remove_all(entry.path());
    ASSERT_TRUE(import(files.write("m.gguf", old), "copy", "notes"));
    ASSERT_TRUE(scan(RawBundle::of().bytes()));
    const pid_t child = ::fork();
    if (child == 0) {
      testing::RememberingObserver observer;
      int left = steps;
      const auto done = imports.confirm(id, true, store, observer, {}, [&](std::string_view) {
        if (left-- == 0) ::_exit(9);
      });
      ::_exit(done ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    completed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ModelStore next(home.path(), clock, entropy);
    next.recover();
    const BundleImports again(home.path(), clock, entropy);
    again.remove_stale({});
    const auto model = next.find("notes");
    ASSERT_TRUE(model) << steps;
    const std::string content = read_file(model->weights).value();
    EXPECT_TRUE(content == old || content == tiny_model()) << steps;
    if (!completed) {
      testing::RememberingObserver observer;
      const auto finished = again.confirm(id, true, next, observer, {});
      ASSERT_TRUE(finished) << steps << ": " << finished.error().message;
    }
    EXPECT_EQ(read_file(next.find("notes")->weights).value(), tiny_model());
    EXPECT_THAT(names_in(next.root()), ElementsAre(".incoming", "notes"));
    EXPECT_THAT(names_in(next.root() / ".incoming"), IsEmpty());
    EXPECT_THAT(names_in(imports.root()), IsEmpty());
  }
  EXPECT_GE(steps, 10);
}

}  // namespace
}  // namespace gezel::models
