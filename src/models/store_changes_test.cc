#include <gmock/gmock.h>

#include <future>

#include "base/test_unprivileged.h"
#include "models/install_test_support.h"
#include "models/publish.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StoreTest;
using testing::tiny_model;

class Removing : public StoreTest {};

TEST_F(Removing, Case41AnIdThatLeadsElsewhereIsRefused) {
  home.write("engines/llama-cpp/other/x", "precious");
  for (const char* id : {"../other", "..", "a/b", "", ".incoming", "a\\b"})
    EXPECT_EQ(store.remove({.id = id}).error().code, "invalid-model-id") << id;
  EXPECT_TRUE(fs::exists(home.path() / "engines/llama-cpp/other/x"));
}

TEST_F(Removing, Case42AModelInUseStaysUntilItIsForced) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  const auto refused = store.remove({.id = "m", .in_use_by = "llama-cpp:m"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "model_in_use");
  EXPECT_EQ(refused.error().kind, ErrorKind::conflict);
  EXPECT_THAT(refused.error().message, HasSubstr("llama-cpp:m"));
  ASSERT_TRUE(store.remove({.id = "m"})) << "whoever forces it has stopped the engine by then";
  EXPECT_FALSE(fs::exists(store.root() / "m"));
}

TEST_F(Removing, WhatIsNotThereIsNotInstalled) {
  EXPECT_EQ(store.remove({.id = "nope"}).error().code, "model_not_installed");
}

TEST_F(Removing, Case49AReferenceLosesOnlyItsRegistration) {
  const fs::path file = files.write("My Model.Q4_K_M.gguf", tiny_model());
  const auto imported = import(file);
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->id, "local-my-model.q4-k-m");
  EXPECT_FALSE(fs::exists(store.root() / imported->id / file.filename())) << "no bytes are copied";
  ASSERT_TRUE(store.remove({.id = imported->id}));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_EQ(store.find(imported->id).error().code, "model_not_found");
}

TEST_F(Removing, AnInstallUnderWayIsNotPulledAway) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  const auto slot = store.begin_install("m");
  ASSERT_TRUE(slot);
  EXPECT_EQ(store.remove({.id = "m"}).error().code, "install_in_progress");
  EXPECT_EQ(store.begin_install("M").error().code, "install_in_progress")
      << "ids are told apart without case";
}

TEST_F(Removing, AStoppedDownloadCanBeDeleted) {
  home.write("engines/llama-cpp/models/.incoming/m/x.gguf.partial", "12345");
  ASSERT_EQ(store.inventory().incomplete.size(), 1U);
  ASSERT_TRUE(store.remove({.id = "m"}));
  EXPECT_THAT(store.inventory().incomplete, IsEmpty());
}

TEST_F(Removing, WhatCannotBeRemovedAfterTheModelIsALockedModel) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  home.write("engines/llama-cpp/models/.incoming/m/x.gguf.partial", "12345");
  const fs::path incoming = store.root() / ".incoming";
  fs::permissions(incoming, fs::perms::owner_read | fs::perms::owner_exec);
  {
    const Unprivileged user(home.path());
    EXPECT_EQ(error_code(store.remove({.id = "m"})), "model_locked");
  }
  fs::permissions(incoming, fs::perms::owner_all);
  EXPECT_FALSE(fs::exists(store.root() / "m"));
  EXPECT_EQ(std::distance(fs::directory_iterator(store.root()), fs::directory_iterator()), 1)
      << "all but the download is gone";
}

TEST_F(Removing, AnUnusableModelCanBeDeleted) {
  home.write("engines/llama-cpp/models/broken/manifest.json", "{");
  ASSERT_TRUE(store.remove({.id = "broken"}));
  EXPECT_THAT(store.inventory().unrecognized, IsEmpty());
}

TEST_F(Removing, ALinkInTheStoreIsNotFollowed) {
  files.write("x", "precious");
  fs::create_directories(store.root());
  fs::create_directory_symlink(files.path(), store.root() / "m");
  EXPECT_EQ(store.remove({.id = "m"}).error().code, "unsafe_path");
  EXPECT_TRUE(fs::exists(files.path() / "x"));
}

TEST_F(Removing, WhatADeletionLeftGoesAtTheNextStart) {
  home.write("engines/llama-cpp/models/.m.deleted-1/x.gguf", "x");
  store.recover();
  EXPECT_FALSE(fs::exists(store.root() / ".m.deleted-1"));
}

TEST_F(Removing, AnIdThatLooksLikeALeftoverLosesNothing) {
  for (const char* id : {"m.deleted-1", "m.backup-1"}) {
    ASSERT_TRUE(import(files.write(std::string(id) + ".gguf", tiny_model()), "copy", id)) << id;
    // A crash between the two renames of a publish.
    fs::rename(store.root() / id, store.root() / fmt::format(".{}.backup-0b5f", id));
    store.recover();
    EXPECT_TRUE(store.find(id)) << id;
  }
}

// Every way to have a large folder removed; none may make others wait for it.
class Unlinking : public StoreTest {
 protected:
  // Whether another thread gets the store's lock while folders are removed by `work`.
  void expect_free_while(const std::function<void()>& work) {
    int removed = 0;
    store.set_remover([&](const fs::path& folder) {
      ++removed;
      // It waits here where the lock is held, and gets it only after the check.
      auto other = std::async(std::launch::async, [&] { return store.begin_install("other").has_value(); });
      EXPECT_EQ(other.wait_for(std::chrono::seconds(10)), std::future_status::ready) << folder;
      fs::remove_all(folder);
    });
    work();
    store.set_remover([](const fs::path& folder) { fs::remove_all(folder); });
    EXPECT_EQ(removed, 1);
  }
  const std::string root = "engines/llama-cpp/models/";
};

TEST_F(Unlinking, AnOldCopyThatAnInstallReplaced) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  const auto slot = store.begin_install("m");
  ASSERT_TRUE(slot);
  home.write(root + ".incoming/m/a.gguf", tiny_model());
  expect_free_while([&] { EXPECT_TRUE(store.publish_install(*slot)); });
}

TEST_F(Unlinking, AnOldCopyThatAnImportReplaced) {
  const fs::path file = files.write("a.gguf", tiny_model());
  ASSERT_TRUE(import(file, "copy", "m"));
  files.write("a.gguf", tiny_model("llama", 128));
  expect_free_while([&] { EXPECT_TRUE(import(file, "copy", "m")); });
}

TEST_F(Unlinking, WhatACrashLeft) {
  home.write(root + ".m.deleted-1/x.gguf", "x");
  expect_free_while([&] { store.recover(); });
  home.write(root + ".incoming/.import-m/x.gguf", "x");
  expect_free_while([&] { EXPECT_TRUE(store.begin_install("n")); });
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  home.write(root + ".m.backup-1/x.gguf", "x");
  expect_free_while([&] { EXPECT_TRUE(import(files.write("b.gguf", tiny_model()), "copy", "b")); });
  EXPECT_FALSE(fs::exists(store.root() / ".m.backup-1"));
}

TEST_F(Unlinking, AnOldDownload) {
  clock.set_wall(std::chrono::system_clock::now());
  const fs::path partial = home.write(root + ".incoming/old/x.gguf.partial", "x");
  fs::last_write_time(partial, fs::file_time_type::clock::now() - std::chrono::hours(24 * 8));
  expect_free_while([&] { EXPECT_THAT(store.remove_stale_downloads(), ElementsAre("old")); });
}

TEST_F(Unlinking, AFolderIsRemovedByOneOnly) {
  home.write(root + ".m.deleted-1/x.gguf", "x");
  int removed = 0;
  store.set_remover([&](const fs::path&) {
    ++removed;
    store.recover();  // as another thread would
  });
  store.recover();
  EXPECT_EQ(removed, 1);
}

TEST_F(Unlinking, ACopyIsNotBegunWhereAnInstallTakesTheRoom) {
  store.set_free_space_probe([](const fs::path&) { return std::optional<Bytes>(3 * kGiB); });
  const fs::path file = files.write("a.gguf", tiny_model());
  {
    const DiskHold install(store.disk_holds(), 2 * kGiB);
    EXPECT_EQ(error_code(import(file, "copy", "m")), "insufficient_disk");
    EXPECT_TRUE(import(file, "reference", "r")) << "which needs no room";
  }
  EXPECT_TRUE(import(file, "copy", "m"));
}

class Stale : public StoreTest {
 protected:
  void age(const fs::path& file, int days) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
  }
  Stale() { clock.set_wall(std::chrono::system_clock::now()); }
};

TEST_F(Stale, Case55OnlyOldDownloadsWithAPartialAreRemoved) {
  const std::string root = "engines/llama-cpp/models/";
  age(home.write(root + ".incoming/old/x.gguf.partial", "x"), 8);
  age(home.write(root + ".incoming/young/x.gguf.partial", "x"), 6);
  age(home.write(root + ".incoming/done/x.gguf", "x"), 8);
  age(home.write(root + "handmade/x.gguf", "x"), 800);
  age(home.write(root + "legacy/x.gguf.partial", "x"), 8);
  age(home.write(root + "installed/manifest.json", "{}"), 80);
  age(home.write(root + "installed/x.partial", "x"), 80);
  EXPECT_THAT(store.remove_stale_downloads(), ::testing::UnorderedElementsAre("old", "legacy"));
  for (const char* kept : {".incoming/young", ".incoming/done", "handmade", "installed"})
    EXPECT_TRUE(fs::exists(store.root() / kept)) << kept;
}

TEST_F(Stale, WhatIsBeingInstalledIsNeverRemoved) {
  age(home.write("engines/llama-cpp/models/.incoming/m/x.gguf.partial", "x"), 30);
  const auto slot = store.begin_install("m");
  EXPECT_THAT(store.remove_stale_downloads(), IsEmpty());
  EXPECT_THAT(store.inventory().incomplete, IsEmpty()) << "nor is it incomplete";
}

TEST_F(Stale, AYoungWriteAnywhereKeepsTheFolder) {
  age(home.write("engines/llama-cpp/models/.incoming/m/a.gguf.partial", "x"), 30);
  age(home.write("engines/llama-cpp/models/.incoming/m/b.gguf", "x"), 1);
  EXPECT_THAT(store.remove_stale_downloads(), IsEmpty());
}

TEST_F(Stale, AStoppedUpdateIsNoIncompleteModel) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m"));
  home.write("engines/llama-cpp/models/.incoming/m/a.gguf.partial", "x");
  EXPECT_THAT(store.inventory().incomplete, IsEmpty());
  EXPECT_EQ(store.inventory().installed.size(), 1U);
}

TEST_F(Stale, IncompleteListsTheLargestFirst) {
  home.write("engines/llama-cpp/models/.incoming/small/a.partial", "x");
  home.write("engines/llama-cpp/models/.incoming/large/a.gguf", "xxxxx");
  home.write("engines/llama-cpp/models/.incoming/.import-m/a.gguf", "xxxxx");
  const auto incomplete = store.inventory().incomplete;
  ASSERT_EQ(incomplete.size(), 2U);
  EXPECT_EQ(incomplete[0].id, "large");
  EXPECT_FALSE(incomplete[0].has_partial);
  EXPECT_TRUE(incomplete[1].has_partial);
}

}  // namespace
}  // namespace gezel::models
