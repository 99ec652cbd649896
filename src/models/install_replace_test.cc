// Installs of a model that is there already: what they replace, keep and leave alone.
#include <gmock/gmock.h>

#include <fstream>

#include "models/install_test_support.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using testing::Installer;
using testing::kShard1;
using testing::kShard2;
using testing::kShard3;
using testing::plan_for;
using testing::tiny_model;

TEST_F(Installer, AModelFromElsewhereIsNotReplaced) {
  TestFolder own;
  ASSERT_TRUE(
      store.import({.path = own.write("x.gguf", tiny_model()).string(), .mode = "copy", .id = "model-q4"}));
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists");
  ASSERT_TRUE(store.remove({.id = "model-q4"}));
  auto plan = plan_for(files, server.url(""));
  plan.source = "huggingface";
  ASSERT_TRUE(run(plan));
  ASSERT_TRUE(run(plan)) << "the same one may be installed again";
  plan.repository = "other/model";
  EXPECT_EQ(code(run(plan)), "model_exists");
}

TEST_F(Installer, ABrokenModelFromElsewhereIsNotReplaced) {
  for (const char* mode : {"copy", "reference"}) {
    TestFolder own;
    const auto imported =
        store.import({.path = own.write("x.gguf", tiny_model()).string(), .mode = mode, .id = "model-q4"});
    ASSERT_TRUE(imported);
    fs::remove(imported->weights);
    EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists") << mode;
    EXPECT_EQ(string_or(manifest_of(), "weightsFilename"), manifest_name(imported->weights, mode[0] == 'r'));
    ASSERT_TRUE(store.remove({.id = "model-q4"}));
  }
}

TEST_F(Installer, WhatCannotBeReadIsNotReplaced) {
  fs::create_directories(store.root() / "model-q4" / "manifest.json");
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists");
  fs::remove(store.root() / "model-q4" / "manifest.json");
  home.write("engines/llama-cpp/models/model-q4/manifest.json", "{");
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists") << "it may have been an import";
}

TEST_F(Installer, ABrokenInstallIsReplacedByTheSameModelOnly) {
  auto plan = plan_for(files, server.url(""));
  for (const char* source : {"catalog", "huggingface"}) {
    plan.source = source;
    ASSERT_TRUE(run(plan));
    fs::remove(store.root() / "model-q4" / "m.gguf");
    auto other = plan;
    other.source = "huggingface";
    other.repository = "other/model";
    EXPECT_EQ(code(run(other)), "model_exists") << source;
    ASSERT_TRUE(run(plan)) << source;
    EXPECT_TRUE(store.find("model-q4"));
    ASSERT_TRUE(store.remove({.id = "model-q4"}));
  }
}

TEST_F(Installer, ABrokenInstallKeepsItsGoodFiles) {
  files = {{kShard1, tiny_model("llama", 512)},
           {kShard2, tiny_model("llama", 1024)},
           {kShard3, tiny_model("llama", 2048)}};
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(run(plan));
  fs::remove(store.root() / "model-q4" / kShard2);
  std::string changed = files[kShard3];
  changed.back() ^= 1;
  // Another content of the same size is not what the digest says.
  home.write("engines/llama-cpp/models/model-q4/" + kShard3, changed);
  ASSERT_TRUE(run(plan));
  EXPECT_THAT(asked(), ElementsAre(kShard1, kShard2, kShard3, kShard2, kShard3));
  EXPECT_EQ(read_file(store.root() / "model-q4" / kShard3).value(), files[kShard3]);
}

TEST_F(Installer, ARepairFetchesARefusedFileThoughItLooksUnchanged) {
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(run(plan));
  const fs::path file = store.root() / "model-q4" / "m.gguf";
  const auto time = fs::last_write_time(file);
  {
    std::fstream damage(file, std::ios::binary | std::ios::in | std::ios::out);
    damage.seekp(-1, std::ios::end);
    damage.put(static_cast<char>(files["m.gguf"].back() ^ 1));
  }
  fs::last_write_time(file, time);
  ASSERT_FALSE(store.verify(*store.find("model-q4")));
  ASSERT_TRUE(run(plan));
  EXPECT_THAT(asked(), ElementsAre("m.gguf", "m.gguf"));
  EXPECT_EQ(read_file(file).value(), files["m.gguf"]);
}

TEST_F(Installer, TheMachinesModelDoesNotStandInTheWayOfACopyOfOnesOwn) {
  for (const bool damaged : {false, true}) {
    TestFolder machine, service, mine, elsewhere;
    ModelStore owner(service.path(), clock, entropy, "llama-cpp", {.folder = machine.path(), .own = true});
    const auto supplied = owner.import(
        {.path = elsewhere.write("x.gguf", tiny_model()).string(), .mode = "copy", .id = "model-q4"});
    ASSERT_TRUE(supplied);
    if (damaged) std::ofstream(supplied->weights, std::ios::app | std::ios::binary) << "x";
    ModelStore user(mine.path(), clock, entropy, "llama-cpp", {.folder = machine.path()});
    EXPECT_EQ(
        code(install(user, transfers, clock, plan_for(files, server.url("")), {}, observer, cancellation)),
        "")
        << damaged;
    ASSERT_TRUE(user.find("model-q4")) << damaged;
    EXPECT_FALSE(user.find("model-q4")->read_only) << damaged;
  }
}

}  // namespace
}  // namespace gezel::models
