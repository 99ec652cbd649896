// `gezel share` without a running daemon: the same way in as with one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "models/install_test_support.h"
#include "service/runtime_files.h"

namespace gezel::cli {
namespace {

using models::testing::tiny_model;
using ::testing::HasSubstr;

constexpr std::string_view kHost = "https://host.example";

class Share : public ::testing::Test {
 protected:
  Share() {
    world.env.installs.machine = {.folder = machine.path(), .own = true};
    offer(tiny_model());
  }
  // What the service's catalog has.
  void offer(const std::string& content) const {
    const fs::path folder = world.env.home / "catalog/chat-models/mo/model-q4";
    fs::create_directories(folder / "versions/1.0.0");
    std::ofstream(folder / "manifest.json")
        << R"({"id":"model-q4","name":"Model","description":"A model.","licenseClass":"open",)"
           R"("maintainer":{"name":"Org"},"parameterSize":"1B","supportsTools":true})";
    std::ofstream(folder / "versions/1.0.0/manifest.json")
        << fmt::format(R"({{"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":{0},)"
                       R"("llamaCpp":{{"huggingfaceRepo":"org/model","filename":"m.gguf","sha256":"{1}",)"
                       R"("approxSizeBytes":{0}}}}})",
                       content.size(), sha256_hex(content));
  }
  // Into somebody's home, as `gezel pull` does.
  void install(const std::string& content, std::string version = "1.0.0") {
    client.files["m.gguf"] = content;
    models::testing::RememberingObserver observer;
    const auto plan =
        models::testing::plan_for(client.files, std::string(kHost), "model-q4", std::move(version));
    const auto installed = models::install(home, transfers, clock, plan, {}, observer, cancellation);
    ASSERT_TRUE(installed) << installed.error().error.message;
  }
  int share() { return world.run({"share", "model-q4", "--from", private_home.path().string()}); }
  bool is_private() const { return home.find("model-q4").has_value(); }
  fs::path shared() const { return machine.path() / "models/llama-cpp/model-q4/m.gguf"; }

  TestWorld world;
  TestFolder machine, private_home;
  downloads::testing::SharedClock clock;
  downloads::testing::FakeWaiter waiter{clock};
  models::testing::CountingEntropy entropy;
  models::ModelStore home{private_home.path(), clock, entropy};
  models::testing::MemoryClient client;
  downloads::Transfers transfers{client, waiter, entropy};
  downloads::Cancellation cancellation;
};

TEST_F(Share, MovesAModelIntoTheMachinesStoreWhereEverybodyMayReadIt) {
  install(tiny_model());
  ASSERT_EQ(share(), kOk) << world.err.str();
  EXPECT_EQ(world.out.str(), "model-q4\n");
  EXPECT_FALSE(is_private());
  EXPECT_EQ(read_file(shared()).value_or(""), tiny_model());
  EXPECT_EQ(fs::status(shared()).permissions() & fs::perms::others_read, fs::perms::others_read);
  EXPECT_TRUE(fs::is_empty(world.env.home / ".transactions/gezmodel-imports"))
      << "nothing is left of the way";
}

TEST_F(Share, ACopyThatIsNotTheCatalogsStaysWhereItIs) {
  install(tiny_model("llama", 4096), "0.9.0");
  EXPECT_NE(share(), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("(not_shareable)"));
  EXPECT_TRUE(is_private());
  EXPECT_FALSE(fs::exists(shared()));
}

// Its manifest says that all is well; only reading the file tells.
TEST_F(Share, ABitThatFlippedSinceTheInstallIsNoticed) {
  install(tiny_model());
  const fs::path file = home.root() / "model-q4/m.gguf";
  const auto before = fs::last_write_time(file);
  std::string content = tiny_model();
  content.back() = static_cast<char>(content.back() ^ 1);
  std::ofstream(file, std::ios::binary) << content;
  fs::last_write_time(file, before);
  EXPECT_NE(share(), kOk);
  EXPECT_TRUE(fs::exists(file));
  EXPECT_FALSE(fs::exists(shared()));
}

TEST_F(Share, WeightsThatNobodyKnowsAreNotTakenAlong) {
  install(tiny_model());
  std::ofstream(home.root() / "model-q4/other.gguf") << "GGUF";
  EXPECT_NE(share(), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("other.gguf"));
  EXPECT_FALSE(fs::exists(shared()));
}

TEST_F(Share, AModelThatTheMachineHasIsLeftAlone) {
  install(tiny_model());
  ASSERT_EQ(share(), kOk) << world.err.str();
  install(tiny_model());
  EXPECT_NE(share(), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("The machine has a model with this id already"));
  EXPECT_TRUE(is_private());
}

TEST_F(Share, WhatAShareThatWasKilledLeftIsRemovedADayLater) {
  install(tiny_model());
  const fs::path folder = world.env.home / ".transactions";
  fs::create_directories(folder);
  for (const char* name : {"share-old.gezmodel", "share-new.gezmodel", "other"})
    std::ofstream(folder / name) << "half";
  for (const char* name : {"share-old.gezmodel", "other"})
    fs::last_write_time(folder / name, fs::file_time_type::clock::now() - std::chrono::hours(25));
  ASSERT_EQ(share(), kOk) << world.err.str();
  EXPECT_FALSE(fs::exists(folder / "share-old.gezmodel"));
  EXPECT_TRUE(fs::exists(folder / "share-new.gezmodel") && fs::exists(folder / "other"));
}

TEST_F(Share, AHomeWhoseDaemonRunsIsRefused) {
  install(tiny_model());
  const auto lock = service::InstanceLock::acquire(private_home.path());
  ASSERT_TRUE(lock);
  EXPECT_NE(share(), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("gezel stop --home " + private_home.path().string()));
  EXPECT_TRUE(is_private());
}

TEST_F(Share, IsForTheMachinesServiceAndForOtherHomes) {
  EXPECT_EQ(world.run({"share", "model-q4", "--from", world.env.home.string()}), kUsage);
  EXPECT_EQ(world.run({"share", "model-q4", "--from", "/nowhere"}), kUsage);
  world.env.installs.machine.own = false;
  EXPECT_EQ(share(), kUsage);
  EXPECT_THAT(world.err.str(), HasSubstr("GEZEL_SYSTEM_SCOPE=1"));
}

}  // namespace
}  // namespace gezel::cli
