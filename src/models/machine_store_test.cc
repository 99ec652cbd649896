// The machine's models beside a user's own, and the service that owns them.
#include <gmock/gmock.h>

#include "models/test_home.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StoreTest;
using testing::tiny_model;

class MachineModels : public StoreTest {
 protected:
  // Of the machine's service.
  ModelStore owner() {
    return {home.path(), clock, entropy, "llama-cpp", {.folder = machine.path(), .own = true}};
  }
  // Of a user.
  ModelStore user() { return {mine.path(), clock, entropy, "llama-cpp", {.folder = machine.path()}}; }
  void publish(const std::string& id) {
    auto store = owner();
    ASSERT_TRUE(
        store.import({.path = files.write(id + ".gguf", tiny_model()).string(), .mode = "copy", .id = id}));
  }
  static std::vector<std::string> ids(const ModelStore& store) {
    std::vector<std::string> out;
    for (const auto& model : store.inventory().installed) out.push_back(model.id);
    return out;
  }
  fs::path folder(const std::string& id) { return machine.path() / "models/llama-cpp" / id; }

  TestFolder machine, mine;
};

TEST_F(MachineModels, AreOfferedOnceTheyWereReadAndAreReadOnly) {
  publish("m");
  auto store = user();
  EXPECT_THAT(ids(store), IsEmpty()) << "a listing reads no file";
  EXPECT_TRUE(store.verify_machine_models());
  ASSERT_THAT(ids(store), ElementsAre("m"));
  EXPECT_TRUE(store.inventory().installed[0].read_only);
  EXPECT_EQ(store.find("m")->weights, folder("m") / "m.gguf");
  EXPECT_EQ(store.check(*store.find("m")), Integrity::unchanged);
  EXPECT_FALSE(store.verify_machine_models()) << "nothing is new";
  EXPECT_THAT(ids(user()), ElementsAre("m")) << "the next process reads nothing again";
}

TEST_F(MachineModels, ACopyOfOnesOwnCountsMoreUnlessItCannotBeUsed) {
  publish("m");
  auto store = user();
  store.verify_machine_models();
  ASSERT_TRUE(store.import(
      {.path = files.write("own.gguf", tiny_model("qwen3")).string(), .mode = "copy", .id = "m"}));
  EXPECT_THAT(ids(store), ElementsAre("m"));
  EXPECT_FALSE(store.find("m")->read_only);
  fs::remove(store.root() / "m" / "own.gguf");
  EXPECT_TRUE(store.find("m")->read_only);
}

TEST_F(MachineModels, AreNeverDeletedFromOutside) {
  publish("m");
  auto store = user();
  store.verify_machine_models();
  const auto refused = store.remove({.id = "m"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "read-only-model");
  EXPECT_THAT(refused.error().message, HasSubstr("gezel pull m --copy"));
  EXPECT_TRUE(fs::exists(folder("m") / "m.gguf"));
}

TEST_F(MachineModels, OneWithAChangedFileIsNotOffered) {
  publish("m");
  std::ofstream(folder("m") / "m.gguf", std::ios::app | std::ios::binary) << "x";
  auto store = user();
  EXPECT_FALSE(store.verify_machine_models());
  EXPECT_THAT(ids(store), IsEmpty());
  EXPECT_EQ(error_code(store.find("m")), "model-invalid");
}

TEST_F(MachineModels, ReadingThemCanBeStopped) {
  publish("m");
  auto store = user();
  EXPECT_FALSE(store.verify_machine_models([](Bytes) { return false; }));
  EXPECT_TRUE(store.verify_machine_models());
}

TEST_F(MachineModels, AreReadableForAllWhereTheyArePublished) {
  publish("m");
  EXPECT_EQ(fs::status(folder("m")).permissions(), fs::perms(0755));
  EXPECT_EQ(fs::status(folder("m") / "m.gguf").permissions(), fs::perms(0644));
  EXPECT_EQ(fs::status(folder("m") / "manifest.json").permissions(), fs::perms(0644));
  EXPECT_EQ(fs::status(folder("m").parent_path()).permissions(), fs::perms(0755));
}

// Every way in which a user's own file could get another mode.
class MachineModelsOfSomebodysFile : public MachineModels {
 protected:
  MachineModelsOfSomebodysFile() { fs::permissions(file, kClosed); }
  static constexpr auto kClosed = fs::perms::owner_read | fs::perms::owner_write;
  const fs::path file = files.write("m.gguf", tiny_model());
  ModelStore store = owner();
};

TEST_F(MachineModelsOfSomebodysFile, ALinkIsRefused) {
  const auto refused = store.import({.path = file.string(), .mode = "link", .id = "m"});
  EXPECT_EQ(error_code(refused), "link_failed");
  EXPECT_THAT(refused.error().message, HasSubstr("mode copy"));
  EXPECT_EQ(fs::status(file).permissions(), kClosed);
  fs::permissions(file, fs::perms(0644));
  EXPECT_TRUE(store.import({.path = file.string(), .mode = "link", .id = "m"}));
}

TEST_F(MachineModelsOfSomebodysFile, AMoveOfOneOfItsNamesIsACopy) {
  const fs::path other = files.path() / "other.gguf";
  fs::create_hard_link(file, other);
  ASSERT_TRUE(store.import({.path = file.string(), .mode = "move", .id = "m"}));
  EXPECT_EQ(fs::status(other).permissions(), kClosed);
  EXPECT_EQ(fs::status(folder("m") / "m.gguf").permissions(), fs::perms(0644));
}

TEST_F(MachineModelsOfSomebodysFile, AMoveOfALinkToItIsACopy) {
  fs::create_symlink(file, files.path() / "named.gguf");
  ASSERT_TRUE(store.import({.path = (files.path() / "named.gguf").string(), .mode = "move", .id = "m"}));
  EXPECT_EQ(fs::status(file).permissions(), kClosed);
}

TEST_F(MachineModelsOfSomebodysFile, AMoveOfItsOnlyNameGivesItAway) {
  ASSERT_TRUE(store.import({.path = file.string(), .mode = "move", .id = "m"}));
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(fs::status(folder("m") / "m.gguf").permissions(), fs::perms(0644));
}

TEST_F(MachineModelsOfSomebodysFile, AModelOfThePrivateStoreThatIsLinkedStaysThere) {
  ASSERT_TRUE(MachineModels::store.import({.path = file.string(), .mode = "link", .id = "m"}));
  EXPECT_THAT(store.move_in_private_models(), IsEmpty());
  EXPECT_EQ(fs::status(file).permissions(), kClosed);
}

TEST_F(MachineModels, ThoseOfThePrivateStoreMoveInWithTheirDigests) {
  ASSERT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "a"));
  ASSERT_TRUE(import(files.write("l.gguf", tiny_model("qwen3")), "link", "l"));
  ASSERT_TRUE(import(files.write("r.gguf", tiny_model("gemma3")), "reference", "r"));
  auto store = owner();
  EXPECT_THAT(store.move_in_private_models(), ElementsAre("a", "l"));
  EXPECT_THAT(ids(store), ElementsAre("a", "l"));
  EXPECT_EQ(store.find("l")->sha256.size(), 1U);
  EXPECT_FALSE(fs::exists(home.path() / "engines/llama-cpp/models/a"));
  EXPECT_TRUE(fs::exists(home.path() / "engines/llama-cpp/models/r")) << "its file is somebody else's";
  EXPECT_THAT(store.move_in_private_models(), IsEmpty());
}

TEST_F(MachineModels, APathThatIsNotAbsoluteCountsAsNone) {
  EXPECT_EQ(machine_store("models", "1").folder, fs::path());
  EXPECT_FALSE(machine_store("", "1").own);
  EXPECT_TRUE(machine_store("/srv/gezel", "1").own);
  EXPECT_FALSE(machine_store("/srv/gezel", "").own);
}

TEST_F(MachineModels, AFolderThatTheServiceMakesLetsOthersThrough) {
  const fs::path made = machine.path() / "made";
  ModelStore store(home.path(), clock, entropy, "llama-cpp", {.folder = made, .own = true});
  ASSERT_TRUE(
      store.import({.path = files.write("m.gguf", tiny_model()).string(), .mode = "copy", .id = "m"}));
  constexpr auto kThrough = fs::perms::group_exec | fs::perms::others_exec;
  EXPECT_EQ(fs::status(made).permissions() & kThrough, kThrough);
}

TEST_F(MachineModels, WhatAnInterruptedPublishLeftClosedIsOpenedAtTheNextStart) {
  publish("m");
  fs::permissions(folder("m"), fs::perms::owner_all);
  owner().recover();
  EXPECT_EQ(fs::status(folder("m")).permissions(), fs::perms(0755));
}

TEST_F(MachineModels, LookingForOneThatNobodyReadCanBeStopped) {
  publish("m");
  auto store = user();
  EXPECT_EQ(error_code(store.find("m", [](Bytes) { return false; })), "cancelled");
  EXPECT_TRUE(store.inventory().machine_unread);
  EXPECT_TRUE(store.find("m", [](Bytes) { return true; }));
  EXPECT_FALSE(store.inventory().machine_unread);
}

}  // namespace
}  // namespace gezel::models
