// Models whose files change while they are loaded or wait to be.
#include <gmock/gmock.h>

#include "engine_llama/test_windows.h"

namespace gezel::engine_llama {
namespace {

using engine::State;
using testing::HasSubstr;

TEST_F(Windows, ChangedFilesWaitUntilMemoryIsNoLongerShort) {
  load_short();
  admission->hold("memory is short");
  engine->refresh();
  settle();
  EXPECT_FALSE(reloads());
  advance_alive(engine::kLongWait);
  EXPECT_FALSE(reloads());
  auto client = ask();
  worker().done(take().at(0).id);
  settle();
  EXPECT_FALSE(reloads());
  admission->hold("");
  auto later = ask();
  worker().done(take().at(0).id);
  settle();
  EXPECT_TRUE(reloads());
}

TEST_F(Windows, ChangedFilesAreLoadedOnceNobodyIsAnswered) {
  load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  engine->refresh();
  settle();
  EXPECT_EQ(engine->status().stale, "files");
  EXPECT_FALSE(was_stopped());
  auto late = ask();
  const auto second = take().at(0).id;
  worker().done(id);
  settle();
  EXPECT_FALSE(was_stopped());
  models->facts.model.weights = "/models/new.gguf";
  worker().done(second);
  settle();
  stop_worker();
  EXPECT_EQ(engine->status().state, State::stopped);
  auto client = ask();
  worker().exit({1, 0});  // other files are measured anew
  load();
  EXPECT_EQ(path, "/models/new.gguf");
  EXPECT_EQ(engine->status().stale, "");
}

TEST_F(Windows, AModelThatIsNeverIdleIsExchangedAllTheSame) {
  load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  worker().started(id);
  engine->refresh();
  advance_alive(engine::kLongWait);
  auto late = ask();
  EXPECT_TRUE(take().empty());
  EXPECT_THAT(engine->status().waiting, HasSubstr("new files"));
  worker().done(id);
  settle();
  stop_worker();
  load();
  EXPECT_EQ(generates.size(), 1U);
}

TEST_F(Windows, RequestsDoNotPutOffTheNewFiles) {
  load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  worker().started(id);
  models->facts.stamp.mtime_ns += 1;
  advance_alive(kFilesEvery);
  std::vector<Client> others;
  for (Millis past{0}; past < engine::kLongWait; past += Millis(10'000)) {
    others.push_back(ask());
    for (const auto& sent : take()) worker().done(sent.id);
    advance_alive(Millis(10'000));
  }
  auto late = ask();
  EXPECT_TRUE(take().empty());
  EXPECT_THAT(engine->status().waiting, HasSubstr("new files"));
}

TEST_F(Windows, AFileThatChangedOnTheDiskIsNoticedByTheNextRequest) {
  load_short();
  models->facts.stamp.mtime_ns += 1;
  advance_alive(kFilesEvery);
  auto client = ask();
  EXPECT_EQ(engine->status().stale, "files");
  worker().done(take().at(0).id);
  settle();
  EXPECT_TRUE(was_stopped());
}

TEST_F(Windows, AFileThatIsGoneLeavesTheLoadedModelAlone) {
  load_short();
  models->missing = true;
  advance_alive(kFilesEvery);
  auto client = ask();
  EXPECT_EQ(engine->status().stale, "");
  worker().done(take().at(0).id);
  settle();
  EXPECT_FALSE(was_stopped());
}

TEST_F(Windows, AStartThatWaitedForMemoryLoadsTheFileThatIsThereNow) {
  make();
  admission->hold("memory is short");
  auto client = ask();
  worker().exit({1, 0});
  settle();
  models->facts.model.weights = "/models/new.gguf";
  models->facts.stamp.inode = 2;
  admission->hold("");
  settle();
  worker().exit({1, 0});  // the new file's measurement
  load();
  EXPECT_EQ(path, "/models/new.gguf");
  EXPECT_EQ(generates.size(), 1U);
}

}  // namespace
}  // namespace gezel::engine_llama
