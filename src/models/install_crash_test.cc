// The process ends after each step of an install. Whatever is then on the disk, the old model is there or
// nothing is, the next start cleans up, and the next install ends well.

#include <gmock/gmock.h>

#include "models/crash_support.h"
#include "models/install_test_support.h"

namespace gezel::models {
namespace {

using testing::CountingEntropy;
using ::testing::ElementsAre;
using testing::End;
using testing::Files;
using ::testing::IsEmpty;
using testing::plan_for;
using testing::tiny_model;

class Crash : public ::testing::Test {
 protected:
  // One life of a process, with its own store.
  End live(const Files& files, int steps, const std::string& version) {
    return testing::run_until(steps, [&](const StepHook& at_step) {
      downloads::testing::SharedClock shared;
      downloads::testing::FakeWaiter waiter(shared);
      SystemEntropy random;
      ModelStore store(home.path(), shared, random);
      testing::MemoryClient client;
      client.files = files;
      const downloads::Transfers transfers(client, waiter, random);
      testing::RememberingObserver observer;
      InstallOptions options;
      options.at_step = at_step;
      return install(store, transfers, shared, plan_for(files, "http://127.0.0.1:1", "model-q4", version),
                     options, observer, {})
          .has_value();
    });
  }

  std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      out.push_back(entry.path().filename().string());
    std::ranges::sort(out);
    return out;
  }

  void reset() {
    for (const auto& entry : fs::directory_iterator(home.path())) fs::remove_all(entry.path());
  }

  TestFolder home;
  ManualClock clock;
  CountingEntropy entropy;
};

const Files kOld{{"m.gguf", tiny_model("llama", 4096)}, {"mtp-m.gguf", tiny_model("llama", 64)}};
const Files kNew{{"m.gguf", tiny_model("llama", 2048)}, {"mtp-m.gguf", tiny_model("llama", 64)}};

// What must hold after a restart, wherever the process ended.
void expect_sound(ModelStore& store, bool had_old, const std::string& step) {
  store.recover();
  const auto inventory = store.inventory();
  EXPECT_THAT(inventory.unrecognized, IsEmpty()) << step;
  const auto model = store.find("model-q4");
  if (!model) {
    EXPECT_FALSE(had_old) << "the old model is gone after " << step;
    return;
  }
  const std::string content = read_file(model->weights).value();
  const std::string expected = model->catalog_version == "1.0.0" ? kOld.at("m.gguf") : kNew.at("m.gguf");
  EXPECT_EQ(content, expected) << step;
  EXPECT_EQ(model->sha256.at("m.gguf"), sha256_hex(content)) << step;
}

TEST_F(Crash, AtEveryStepOfAFirstInstallTheStoreIsCleanOrResumable) {
  int steps = 0;
  for (;; ++steps) {
    ASSERT_LT(steps, 100);
    reset();
    const End end = live(kOld, steps, "1.0.0");
    if (end.completed) break;
    ModelStore store(home.path(), clock, entropy);
    expect_sound(store, false, end.step);
    ASSERT_TRUE(live(kOld, -1, "1.0.0").completed) << end.step;
    EXPECT_EQ(read_file(store.find("model-q4")->weights).value(), kOld.at("m.gguf")) << end.step;
    EXPECT_THAT(names_in(store.root()), ElementsAre(".incoming", "model-q4")) << end.step;
    EXPECT_THAT(names_in(store.root() / kIncoming), IsEmpty()) << end.step;
    EXPECT_THAT(names_in(store.root() / "model-q4"), ElementsAre("m.gguf", "manifest.json", "mtp-m.gguf"))
        << end.step;
  }
  EXPECT_GE(steps, 10);
}

TEST_F(Crash, Case36AtEveryStepOfAnUpdateTheOldOrTheNewModelIsThere) {
  int steps = 0;
  bool between_renames = false;
  for (;; ++steps) {
    ASSERT_LT(steps, 100);
    reset();
    ASSERT_TRUE(live(kOld, -1, "1.0.0").completed);
    const End end = live(kNew, steps, "2.0.0");
    if (end.completed) break;
    ModelStore store(home.path(), clock, entropy);
    if (end.step == "backup") {
      between_renames = true;
      EXPECT_FALSE(store.find("model-q4")) << "this is the moment without a model";
    }
    expect_sound(store, true, end.step);
    if (end.step == "backup") EXPECT_EQ(store.find("model-q4")->catalog_version, "1.0.0");
    ASSERT_TRUE(live(kNew, -1, "2.0.0").completed) << end.step;
    EXPECT_EQ(read_file(store.find("model-q4")->weights).value(), kNew.at("m.gguf")) << end.step;
    EXPECT_THAT(names_in(store.root()), ElementsAre(".incoming", "model-q4")) << end.step;
  }
  EXPECT_TRUE(between_renames);
}

TEST_F(Crash, TheOldCopyIsSetAsideBeforeItIsRemoved) {
  ASSERT_TRUE(live(kOld, -1, "1.0.0").completed);
  End end;
  for (int steps = 0; end.step != "set aside"; ++steps) {
    ASSERT_LT(steps, 100);
    reset();
    ASSERT_TRUE(live(kOld, -1, "1.0.0").completed);
    end = live(kNew, steps, "2.0.0");
  }
  // The kill came in mid-removal, and the new model was deleted since: half of the old one must not come
  // back.
  ModelStore store(home.path(), clock, entropy);
  for (const auto& name : names_in(store.root())) {
    if (name.starts_with(".model-q4.")) fs::remove(store.root() / name / "m.gguf");
  }
  ASSERT_TRUE(store.remove({.id = "model-q4"}));
  store.recover();
  EXPECT_THAT(names_in(store.root()), ElementsAre(".incoming"));
}

TEST_F(Crash, WhatWasVerifiedIsNotFetchedAgain) {
  End end;
  for (int steps = 0; end.step != "manifest"; ++steps) {
    ASSERT_LT(steps, 100);
    reset();
    end = live(kOld, steps, "1.0.0");
  }
  ModelStore store(home.path(), clock, entropy);
  testing::MemoryClient client;  // has nothing
  downloads::testing::SharedClock shared;
  downloads::testing::FakeWaiter waiter(shared);
  const downloads::Transfers transfers(client, waiter, entropy);
  testing::RememberingObserver observer;
  const auto done = install(store, transfers, clock, plan_for(kOld, "http://127.0.0.1:1"), {}, observer, {});
  ASSERT_TRUE(done) << done.error().error.message;
  EXPECT_THAT(client.asked, IsEmpty());
}

}  // namespace
}  // namespace gezel::models
