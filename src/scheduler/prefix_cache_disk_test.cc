// What the prefix cache has on disk.
#include "scheduler/test_prefix_cache.h"

namespace gezel::scheduler {
namespace {

using kvcache::Mode;

TEST_F(PrefixCacheTest, ARestartLosesNothingThatWasComputed) {
  with_disk_ = true;
  start(2);
  answer(1, words(600, 1) + words(300, 2), 600, 40);
  restart();
  answer(2, words(600, 1) + words(300, 2) + words(20, 3), 600);
  EXPECT_EQ(cached(2), 900);
  EXPECT_EQ(sink_.done[2].cached.disk, 900);
}

// The next words after a system text are often the same, so that later conversations part inside a record of
// the first one.
TEST_F(PrefixCacheTest, ConversationsThatPartInsideARecordAllComeBackAfterARestart) {
  with_disk_ = true;
  start(3);
  const auto head = words(1000, 1) + words(3, 7);
  for (RunId id = 1; id <= 3; ++id) {
    answer(id, head + words(150, 10 + static_cast<int>(id)), 1000);
    cache_->save_everything();  // before the next one parts from it
    for (int i = 0; i < 5; ++i) scheduler_->poke();
  }
  restart();
  for (RunId id = 1; id <= 3; ++id) {
    answer(10 + id, head + words(150, 10 + static_cast<int>(id)) + words(20, 3), 1000);
    EXPECT_EQ(cached(10 + id), 1153) << id;
  }
}

class LostHeadTest : public PrefixCacheTest {
 protected:
  void SetUp() override {
    with_disk_ = true;
    start(1);
    RunSpec run = chat(1, words(600, 1) + words(300, 2), 600);
    run.session = "mine";
    scheduler_->submit(std::move(run));
    run_all();
    scheduler_->freeze(clock_.now() + Millis(1000));
    std::erase_if(records_->files, [](const auto& file) { return file.second.record.header.start == 0; });
    ASSERT_EQ(records_->files.size(), 1u);
    scheduler_.reset();
    cache_.reset();
    records_->found();
    start(1);
    scheduler_->poke();
  }
};

// Spec 40 section 11.10.3.
TEST_F(LostHeadTest, WhatIsBehindItIsFoundWhenItIsThereAgain) {
  answer(2, words(600, 1) + words(40, 5), 600);
  answer(3, words(600, 1) + words(300, 2) + words(20, 3), 600);
  EXPECT_EQ(cached(3), 900);
}

TEST_F(LostHeadTest, WhatIsBehindItGoesWithItsSession) {
  scheduler_->drop_session("mine");
  EXPECT_TRUE(records_->files.empty());
}

TEST_F(PrefixCacheTest, RecordsOfATenantThatDidNotAskYetGoWithTheirSession) {
  with_disk_ = true;
  start(1);
  RunSpec run = chat(1, words(600, 1) + words(300, 2), 600);
  run.tenant = "a";
  run.session = "mine";
  scheduler_->submit(std::move(run));
  run_all();
  for (const bool known : {false, true}) {
    const auto files = records_->files;
    restart();
    ASSERT_FALSE(records_->files.empty());
    if (known) scheduler_->poke();
    scheduler_->drop_session("mine");
    for (int i = 0; i < 5; ++i) scheduler_->poke();
    EXPECT_TRUE(records_->files.empty()) << "the records were " << (known ? "" : "not ") << "known yet";
    if (!known) records_->files = files;
  }
}

TEST_F(PrefixCacheTest, WhatIsUsedIsTouchedFromItsEndToItsHead) {
  with_disk_ = true;
  start(1);
  answer(1, words(600, 1) + words(300, 2), 600);
  answer(2, words(300, 9), 0);
  records_->touched.clear();
  answer(3, words(600, 1) + words(300, 2) + words(20, 3), 600);
  ASSERT_FALSE(records_->touched.empty());
  std::vector<std::uint32_t> ends;
  for (const kvcache::Digest& record : records_->touched.front())
    ends.push_back(records_->files.at(record).record.header.end);
  EXPECT_THAT(ends, testing::ElementsAre(900, 600));
}

TEST_F(PrefixCacheTest, WhatQualifiesIsWrittenWithoutBeingAsked) {
  with_disk_ = true;
  start(1);
  answer(1, words(600, 1) + words(150, 2), 600);
  scheduler_->poke();
  EXPECT_EQ(records_->written, 2u) << "the system text and the question behind it";
}

TEST_F(PrefixCacheTest, EveryRecordNamesTheSessionsThatUsedIt) {
  with_disk_ = true;
  start(1);
  const auto has = [&](const std::string& session) {
    return testing::Contains(kvcache::session_tag(session));
  };
  RunSpec first = chat(1, words(600, 1) + words(700, 2), 600, 300);
  first.session = "first";
  first.lane = prompt::Lane::background;
  scheduler_->submit(std::move(first));
  for (int i = 0; i < 100; ++i) scheduler_->step();
  answer(2, words(100, 9), 0);  // takes the slot meanwhile
  EXPECT_FALSE(records_->files.empty());
  for (const auto& [own, file] : records_->files)
    if (file.record.header.end > 100) EXPECT_THAT(file.record.header.tags, has("first"));
  RunSpec second = chat(3, words(600, 1) + words(700, 2) + words(50, 3), 600);
  second.session = "second";
  scheduler_->submit(std::move(second));
  run_all();
  cache_->save_everything();
  for (int i = 0; i < 10; ++i) scheduler_->poke();
  for (const auto& [own, file] : records_->files) {
    if (file.record.header.end == 1'350) EXPECT_THAT(file.record.header.tags, has("second"));
  }
}

TEST_F(PrefixCacheTest, ADamagedRecordGivesWhatIsBeforeTheDamage) {
  with_disk_ = true;
  start(1);
  answer(1, words(1'500, 1), 1'500);
  restart();
  records_->damaged = true;
  answer(2, words(1'500, 1) + words(10, 2), 1'500);
  EXPECT_EQ(cached(2), 1'024);
}

TEST_F(PrefixCacheTest, ADiskThatRefusesCostsNoAnswer) {
  with_disk_ = true;
  start(1);
  records_->accepts = false;
  answer(1, words(600, 1) + words(150, 2), 600);
  answer(2, words(600, 3) + words(150, 2), 600);
  answer(3, words(600, 1) + words(40, 5), 600);
  EXPECT_EQ(cached(3), 600) << "from memory";
  restart();
  answer(4, words(600, 1) + words(40, 5), 600);
  EXPECT_EQ(cached(4), 0);
}

TEST_F(PrefixCacheTest, ADiskThatNeverAnswersIsWaitedForOnlySoLong) {
  with_disk_ = true;
  start(1);
  answer(1, words(1'500, 1), 1'500);
  restart();
  records_->holds_back = true;
  scheduler_->submit(chat(2, words(1'500, 1) + words(10, 2), 1'500));
  for (int i = 0; i < 100 && scheduler_->runnable(); ++i) scheduler_->step();
  EXPECT_FALSE(sink_.done.contains(2));
  ASSERT_TRUE(scheduler_->wake_at());
  clock_.advance(std::chrono::duration_cast<Millis>(*scheduler_->wake_at() - clock_.now()) + Millis(1));
  scheduler_->poke();
  run_all();
  EXPECT_EQ(sink_.text[2], expected_text(words(1'500, 1) + words(10, 2), 5));
  EXPECT_EQ(cached(2), 0);
}

TEST_F(PrefixCacheTest, WhoWaitsForTheDiskBehindOneThatWaitsForASlotWakesNobodyAgainAndAgain) {
  with_disk_ = true;
  start(1);
  answer(1, words(1'500, 1), 1'500);
  restart();
  scheduler_->submit(chat(2, words(100, 2), 0, 20));
  for (int i = 0; i < 3; ++i) scheduler_->step();
  scheduler_->pause(2, true);
  records_->holds_back = true;
  RunSpec background = chat(3, words(1'500, 1) + words(10, 3), 1'500);
  background.lane = prompt::Lane::background;
  scheduler_->submit(std::move(background));
  scheduler_->submit(chat(4, words(100, 4), 0));
  for (int i = 0; i < 100 && scheduler_->runnable(); ++i) scheduler_->step();
  ASSERT_FALSE(scheduler_->runnable());
  ASSERT_TRUE(scheduler_->wake_at());
  clock_.advance(std::chrono::duration_cast<Millis>(*scheduler_->wake_at() - clock_.now()) + Millis(1));
  scheduler_->poke();
  EXPECT_FALSE(scheduler_->wake_at()) << "no time that has passed";
  scheduler_->pause(2, false);
  run_all();
  for (const RunId id : {2, 3, 4}) EXPECT_TRUE(sink_.done.contains(id)) << id;
  EXPECT_EQ(sink_.text[3], expected_text(words(1'500, 1) + words(10, 3), 5));
}

TEST_F(PrefixCacheTest, APinHoldsAfterARestart) {
  with_disk_ = true;
  start(1);
  answer(1, words(600, 1) + words(300, 2), 600);
  cache_->save_everything();
  scheduler_->poke();
  scheduler_->poke();
  const auto system_node = [&] {
    kvcache::NodeId found = kvcache::kNoNode;
    cache_->tree().each([&](kvcache::NodeId id, const kvcache::Node& node) {
      if (node.end == 600) found = id;
    });
    return found;
  };
  ASSERT_TRUE(cache_->tree().find(system_node())->disk) << "it was written before it was pinned";
  ASSERT_TRUE(cache_->pin(system_node()));
  restart();
  scheduler_->poke();
  EXPECT_TRUE(cache_->tree().pinned_here(system_node()));
  EXPECT_EQ(cache_->tree().find(system_node())->pins, 1u);
  cache_->unpin(system_node());
  restart();
  scheduler_->poke();
  EXPECT_FALSE(cache_->tree().pinned_here(system_node()));
}

TEST_F(PrefixCacheTest, APinBelowDoesNotPinWhatIsAboveForItself) {
  with_disk_ = true;
  start(1);
  answer(1, words(600, 1) + words(300, 2), 600);
  const auto path =
      cache_->tree().match(cache_->domain_for(""), kvcache::token_keys(words(600, 1) + words(300, 2))).path;
  ASSERT_EQ(path.size(), 2u);
  ASSERT_TRUE(cache_->pin(path.back()));
  restart();
  scheduler_->poke();
  int pins = 0;
  cache_->tree().each(
      [&](kvcache::NodeId, const kvcache::Node& node) { pins += static_cast<int>(node.pins); });
  EXPECT_EQ(pins, 2) << "one for the node, and one that it gives its parent";
}

TEST_F(PrefixCacheTest, WhatIsBeingReadIsPartOfTheBudget) {
  with_disk_ = true;
  host_budget_ = 20 * kKiB;  // of 2,560 tokens
  start(1);
  answer(1, words(1'500, 1), 1'500);
  restart();
  answer(2, words(1'500, 2), 1'500);
  records_->holds_back = true;
  scheduler_->submit(chat(3, words(1'500, 1) + words(10, 2), 1'500));
  for (int i = 0; i < 100 && scheduler_->runnable(); ++i) scheduler_->step();
  EXPECT_EQ(records_->loads, 1);
  EXPECT_LE(cache_->tree().used(kvcache::Tier::host) + 1'500 * 8, host_budget_);
  EXPECT_LE(cache_->tree().budget(kvcache::Tier::host) + 1'500 * 8, host_budget_);
}

TEST_F(PrefixCacheTest, MemoryThatAnotherModelNeedsIsGivenBackForGood) {
  host_budget_ = 64 * kMiB;
  start(2);
  answer(1, words(600, 1) + words(150, 2), 600);
  EXPECT_EQ(cache_->give_back_half(clock_.now()), 32 * kMiB);
  EXPECT_LE(cache_->statistics().host_budget, 32 * kMiB);
  clock_.advance(std::chrono::minutes(20));
  cache_->tend(clock_.now());
  EXPECT_LE(cache_->statistics().host_budget, 32 * kMiB);
  answer(2, words(600, 1) + words(40, 3), 600);
  EXPECT_EQ(cached(2), 600) << "what it keeps is used on";
  cache_->give_back_half(clock_.now());
  EXPECT_EQ(cache_->give_back_half(clock_.now()), 0u);
  EXPECT_EQ(cache_->statistics().host_bytes, 0u);
  answer(3, words(600, 1) + words(300, 4), 600);
  EXPECT_EQ(cache_->tree().check(), "");
}

}  // namespace
}  // namespace gezel::scheduler
