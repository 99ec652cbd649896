#include "scheduler/test_prefix_cache.h"

namespace gezel::scheduler {
namespace {

using kvcache::Mode;

TEST_F(PrefixCacheTest, AnotherConversationWithTheSameSystemTextComputesItsOwnPartOnly) {
  start(2);
  answer(1, words(600, 1) + words(150, 2), 600);
  answer(2, words(600, 1) + words(40, 3), 600);
  EXPECT_EQ(cached(2), 600);
  EXPECT_EQ(sink_.done[2].cached.host, 600);
  EXPECT_EQ(decoder_->imports, 1);
}

// Spec 40, case 36.
TEST_F(PrefixCacheTest, PromptsPartWhereTheirTokensDo) {
  start(2);
  const auto first = words(1000, 1) + words(150, 2);
  auto second = words(1000, 1) + words(40, 3);
  std::copy_n(first.begin() + 1000, 3, second.begin() + 1000);
  second[1003] = first[1003] == 5 ? 6 : 5;
  answer(1, first, 1000);
  answer(2, second, 1000);
  EXPECT_EQ(cached(2), 1003);
  int ends = 0;
  cache_->tree().each([&](kvcache::NodeId, const kvcache::Node& node) {
    ends += node.end == 1000 || node.end == 1003 ? 1 : 0;
    if (node.end == 1003) EXPECT_EQ(node.kids.size(), 2u);
  });
  EXPECT_EQ(ends, 2);
}

TEST_F(PrefixCacheTest, FourAtTheSameMomentComputeTheHeadOnce) {
  start(4);
  for (RunId id = 1; id <= 4; ++id)
    scheduler_->submit(chat(id, words(900, 1) + words(30, 10 + static_cast<int>(id)), 900));
  run_all();
  for (RunId id = 1; id <= 4; ++id)
    EXPECT_EQ(sink_.text[id], expected_text(words(900, 1) + words(30, 10 + static_cast<int>(id)), 5));
  EXPECT_EQ(computed(), 900 + 4 * 30);
  EXPECT_EQ(sink_.done[3].cached.coalesced, 900);
}

// Spec 40, case 51.
TEST_F(PrefixCacheTest, EightAtOnceComputeALongHeadOnce) {
  slots_ = 8;
  make(8, 16'384);
  for (RunId id = 1; id <= 8; ++id)
    scheduler_->submit(chat(id, words(12'000, 1) + words(100, 10 + static_cast<int>(id)), 12'000));
  run_all();
  EXPECT_LE(computed(), 12'800 + 8);
  EXPECT_EQ(sink_.done.size(), 8u);
}

// Spec 40, case 59.
TEST_F(PrefixCacheTest, ACommonPartBelow128TokensIsNotWaitedFor) {
  for (const int common : {127, 128}) {
    sink_ = {};
    start(2);
    scheduler_->submit(chat(1, words(common, 1) + words(200, 2), 0));
    scheduler_->submit(chat(2, words(common, 1) + words(200, 3), 0));
    run_all();
    EXPECT_EQ(cached(2), common == 127 ? 0 : 128) << common;
    scheduler_.reset();
    cache_.reset();
  }
}

TEST_F(PrefixCacheTest, AnInteractiveRequestDoesNotWaitBehindOthersForWhatBackgroundWorkComputes) {
  for (const prompt::Lane lane : {prompt::Lane::background, prompt::Lane::batch}) {
    sink_ = {};
    start(3);
    RunSpec leader = chat(1, words(3'000, 1), 3'000);
    leader.lane = lane;
    scheduler_->submit(std::move(leader));
    scheduler_->submit(chat(2, words(3'000, 1) + words(30, 2), 3'000));
    scheduler_->submit(chat(3, words(4'000, 3), 0));
    while (!sink_.done.contains(2)) scheduler_->step();
    EXPECT_EQ(cached(2), 3'000);
    EXPECT_FALSE(sink_.done.contains(3)) << "it came later and is longer";
    run_all();
    scheduler_.reset();
    cache_.reset();
  }
}

TEST_F(PrefixCacheTest, ALeaderThatIsCancelledLeavesItsPlaceToTheNext) {
  start(3);
  for (RunId id = 1; id <= 3; ++id)
    scheduler_->submit(chat(id, words(2'000, 1) + words(30, 10 + static_cast<int>(id)), 2'000));
  scheduler_->step();
  scheduler_->cancel(1);
  run_all();
  EXPECT_EQ(sink_.text[2], expected_text(words(2'000, 1) + words(30, 12), 5));
  EXPECT_EQ(sink_.text[3], expected_text(words(2'000, 1) + words(30, 13), 5));
  EXPECT_LE(computed(), 2'000 + 2 * 30);
}

TEST_F(PrefixCacheTest, AConversationWhoseSlotWasTakenGoesOnWhereItWas) {
  start(1);
  const auto first = words(400, 1);
  answer(1, first, 0, 40);
  answer(2, words(300, 2), 0);
  auto next = first;
  for (const char c : sink_.text[1]) next.push_back(c - '!');
  next.pop_back();  // it was never fed
  next = next + words(20, 3);
  answer(3, next, 0);
  EXPECT_EQ(cached(3), 439);
  EXPECT_EQ(decoder_->exports, 2) << "each time the slot is given up";
}

TEST_F(PrefixCacheTest, TheSlotThatContinuesIsUsedWithoutMovingAnything) {
  start(2);
  answer(1, words(400, 1), 0, 40);
  answer(2, words(400, 1) + words(5, 9), 0);
  EXPECT_EQ(cached(2), 400);
  EXPECT_EQ(decoder_->imports, 0);
  EXPECT_EQ(sink_.done[2].cached.slot, 400);
}

TEST_F(PrefixCacheTest, NothingMovesBeforeTheProbeHasRun) {
  open_ = false;
  start(2);
  answer(1, words(600, 1) + words(150, 2), 600);
  answer(2, words(600, 1) + words(300, 3), 600);
  EXPECT_EQ(cached(2), 0);
  EXPECT_EQ(decoder_->exports + decoder_->imports, 0);
  open();
  answer(3, words(600, 1) + words(40, 4), 600);
  EXPECT_EQ(cached(3), 600) << "what a slot holds is exported when it is wanted";
}

// Spec 40, case 58: a failed import costs time only.
TEST_F(PrefixCacheTest, ARefusedImportIsComputedInstead) {
  start(2);
  answer(1, words(600, 1) + words(150, 2), 600);
  decoder_->refuse_imports = true;
  answer(2, words(600, 1) + words(40, 3), 600);
  EXPECT_EQ(cached(2), 0);
  EXPECT_EQ(cache_->statistics().failed_imports, 1u);
}

TEST_F(PrefixCacheTest, ARefusedExportIsComputedInstead) {
  start(1);
  decoder_->refuse_exports = true;
  answer(1, words(600, 1) + words(150, 2), 600);
  answer(2, words(600, 3) + words(150, 2), 600);
  answer(3, words(600, 1) + words(40, 3), 600);
  EXPECT_EQ(cached(3), 0);
}

TEST_F(PrefixCacheTest, ABudgetOfNothingKeepsToTheSlots) {
  host_budget_ = 0;
  start(2);
  answer(1, words(600, 1) + words(150, 2), 600);
  answer(2, words(600, 1) + words(300, 3), 600);
  EXPECT_EQ(cached(2), 0);
  EXPECT_EQ(cache_->statistics().host_bytes, 0u);
}

TEST_F(PrefixCacheTest, APromptAskedAgainAfterALongAnswerIsNotComputedAgain) {
  // Without memory to move it, with too little for it, and with enough.
  for (const Bytes budget : {Bytes{0}, 2 * kKiB, 64 * kMiB}) {
    SCOPED_TRACE(budget);
    sink_ = {};
    host_budget_ = budget;
    start(3);
    answer(1, words(500, 1), 0, 700);
    answer(2, words(500, 1), 0, 700);
    EXPECT_EQ(cached(2), 499);
    answer(3, words(450, 1) + words(30, 2), 0);
    EXPECT_EQ(cached(3), 450) << "its last words were changed";
    scheduler_.reset();
    cache_.reset();
  }
}

TEST_F(PrefixCacheTest, WhatCannotBeMovedIsNotExportedInVain) {
  host_budget_ = 2 * kKiB;
  start(2);
  answer(1, words(600, 1), 600, 300);
  const int before = decoder_->exports;
  answer(2, words(600, 1), 600, 10);
  EXPECT_EQ(decoder_->exports, before);
  EXPECT_EQ(sink_.done[2].cached.slot, 599);
}

TEST_F(PrefixCacheTest, ConversationsWithOneSystemTextPartIntoSlotsOfTheirOwn) {
  host_budget_ = 0;
  start(2);
  auto one = words(600, 1) + words(50, 2), other = words(600, 1) + words(50, 3);
  std::int64_t last = 0;
  for (RunId id = 1; id <= 20; id += 2) {
    answer(id, one, 600, 40);
    answer(id + 1, other, 600, 40);
    for (auto [chat, run] : {std::pair(&one, id), std::pair(&other, id + 1)}) {
      for (const char c : sink_.text[run]) chat->push_back(c - '!');
      *chat = *chat + words(20, static_cast<int>(run) + 50);
    }
    last = sink_.done[id].cached_tokens;
  }
  EXPECT_GT(last, 900) << "each goes on where it was";
}

TEST_F(PrefixCacheTest, TheBudgetHolds) {
  host_budget_ = 20 * kKiB;
  start(1);
  for (RunId id = 1; id <= 20; ++id) {
    answer(id, words(500, static_cast<int>(id)), 0);
    EXPECT_LE(cache_->statistics().host_bytes, host_budget_);
  }
  EXPECT_GT(cache_->statistics().evicted, 0u);
}

TEST_F(PrefixCacheTest, PressureHalvesTheBudgetUntilItIsOver) {
  host_budget_ = 1024 * kMiB;
  start(1);
  cache_->pressure(clock_.now());
  EXPECT_EQ(cache_->statistics().host_budget, 512 * kMiB);
  clock_.advance(std::chrono::minutes(10));
  cache_->tend(clock_.now());
  EXPECT_EQ(cache_->statistics().host_budget, 1024 * kMiB);
}

TEST_F(PrefixCacheTest, AnEphemeralRunLeavesItsSystemTextOnly) {
  start(1);
  RunSpec run = chat(1, words(600, 1) + words(300, 2), 600, 60);
  run.ephemeral = true;
  scheduler_->submit(std::move(run));
  run_all();
  answer(2, words(300, 9), 0);
  answer(3, words(600, 1) + words(300, 2), 600);
  EXPECT_EQ(cached(3), 600);
}

TEST_F(PrefixCacheTest, AForksParentKeepsItsSlotForAWhile) {
  start(2);
  RunSpec parent = chat(1, words(300, 1), 0);
  parent.session = "parent";
  scheduler_->submit(std::move(parent));
  run_all();
  answer(2, words(300, 2), 0);  // the parent's slot is now the older one
  RunSpec fork = chat(3, words(300, 1) + words(200, 3), 0);
  fork.session = "fork";
  fork.parent_session = "parent";
  scheduler_->submit(std::move(fork));
  run_all();
  EXPECT_EQ(cached(3), 300);
  RunSpec next = chat(4, words(300, 1) + words(10, 4), 0);
  next.session = "parent";
  scheduler_->submit(std::move(next));
  run_all();
  EXPECT_EQ(sink_.done[4].cached.slot, 300);
}

TEST_F(PrefixCacheTest, WhatASessionUsedAloneCanBeDropped) {
  start(2);
  RunSpec run = chat(1, words(600, 1) + words(300, 2), 600);
  run.session = "mine";
  scheduler_->submit(std::move(run));
  run_all();
  answer(2, words(600, 1) + words(300, 3), 600);
  const auto dropped = scheduler_->drop_session("mine");
  EXPECT_FALSE(dropped.slots.empty());
  EXPECT_EQ(cache_->tree().check(), "");
  answer(3, words(600, 1) + words(300, 2), 600);
  EXPECT_LE(cached(3), 600);
}

// While its run waits, computes, is put aside for another, and afterwards; while records are written.
TEST_F(PrefixCacheTest, AtWhateverMomentASessionIsDroppedNothingOfItIsLeft) {
  with_disk_ = true;
  for (const bool cancelled : {false, true}) {
    for (int moment = 0; moment < 60; ++moment) {
      SCOPED_TRACE(testing::Message() << "moment " << moment << (cancelled ? ", cancelled" : ""));
      sink_ = {};
      records_.reset();
      start(1);
      const auto prompt = words(600, 1) + words(700, 2);
      RunSpec run = chat(1, prompt, 600, 40);
      run.session = "mine";
      run.lane = prompt::Lane::background;
      scheduler_->submit(std::move(run));
      for (int step = 0; step < 80; ++step) {
        if (step == moment) scheduler_->drop_session("mine");
        if (step == 20) scheduler_->submit(chat(2, words(100, 9), 0, 20));
        if (step == 30 && cancelled) scheduler_->cancel(1);
        if (scheduler_->runnable()) scheduler_->step();
      }
      run_all();
      for (int i = 0; i < 10; ++i) scheduler_->poke();
      cache_->save_everything();
      for (int i = 0; i < 10; ++i) scheduler_->poke();
      EXPECT_EQ(cache_->tree().match(cache_->domain_for(""), kvcache::token_keys(prompt)).matched, 0u);
      for (const auto& [own, file] : records_->files)
        EXPECT_LE(file.record.header.end, 120u) << "a record of it is on disk";
      EXPECT_EQ(cache_->tree().check(), "");
      answer(3, prompt, 600);
      EXPECT_EQ(cached(3), 0);
      if (!cancelled) EXPECT_EQ(sink_.text[1], expected_text(prompt, 40));
      scheduler_.reset();
      cache_.reset();
    }
  }
}

TEST_F(PrefixCacheTest, WhatAnotherRunWaitsForIsNotLostWithItsSession) {
  start(2);
  RunSpec run = chat(1, words(3'000, 1), 3'000);
  run.session = "mine";
  scheduler_->submit(std::move(run));
  scheduler_->submit(chat(2, words(3'000, 1) + words(30, 2), 3'000));
  scheduler_->step();
  scheduler_->drop_session("mine");
  run_all();
  EXPECT_EQ(cached(2), 3'000);
  EXPECT_EQ(sink_.text[2], expected_text(words(3'000, 1) + words(30, 2), 5));
}

// --- tenants, spec 40 case 52

TEST_F(PrefixCacheTest, TenantsShareNothing) {
  with_disk_ = true;
  start(3);
  const auto ask = [&](RunId id, const std::string& tenant, int tail) {
    RunSpec run = chat(id, words(600, 1) + words(30, tail), 600);
    run.tenant = tenant;
    scheduler_->submit(std::move(run));
    for (int i = 0; i < 10; ++i) {
      run_all();
      scheduler_->poke();
    }
    return sink_.done[id].cached_tokens;
  };
  EXPECT_EQ(ask(1, "a", 2), 0);
  EXPECT_EQ(ask(2, "b", 2), 0) << "not from the slot either";
  EXPECT_EQ(ask(3, "", 2), 0);
  EXPECT_EQ(ask(4, "a", 3), 600);
  restart();
  EXPECT_EQ(ask(5, "c", 2), 0);
  EXPECT_EQ(ask(6, "b", 2), 629) << "its records are found with its first request";
  EXPECT_EQ(cache_->tree().check(), "");
}

TEST_F(PrefixCacheTest, TwoTenantsAtTheSameMomentDoNotWaitForEachOther) {
  start(2);
  for (RunId id = 1; id <= 2; ++id) {
    RunSpec run = chat(id, words(900, 1), 900);
    run.tenant = std::to_string(id);
    scheduler_->submit(std::move(run));
  }
  run_all();
  EXPECT_EQ(computed(), 2 * 900);
}

// --- diagnoses

TEST_F(PrefixCacheTest, VerifyingComparesWhatWasCachedWithAColdRun) {
  verify_ = true;
  start(2);
  answer(1, words(600, 1) + words(150, 2), 600);
  EXPECT_EQ(scheduler_->statistics().verified, 0u) << "nothing of it was cached";
  answer(2, words(600, 1) + words(40, 3), 600);
  EXPECT_EQ(scheduler_->statistics().verified, 1u);
  EXPECT_EQ(scheduler_->statistics().verify_failed, 0u);
  answer(4, words(300, 8), 0);  // the slots have other texts now
  answer(5, words(300, 9), 0);
  decoder_->spoil_imports = true;
  answer(3, words(600, 1) + words(35, 4), 600);
  EXPECT_EQ(scheduler_->statistics().verify_failed, 1u);
}

// --- models whose memory cannot be cut anywhere

TEST_F(PrefixCacheTest, EveryKindOfMemoryGoesOnAtItsCheckpoints) {
  for (const Mode mode : {Mode::window, Mode::hybrid, Mode::recurrent}) {
    SCOPED_TRACE(std::string(kvcache::name(mode)));
    sink_ = {};
    with_disk_ = false;
    start(2, mode);
    answer(1, words(600, 1) + words(300, 2), 600, 40);
    answer(2, words(600, 1) + words(280, 3), 600);
    EXPECT_EQ(cached(2), 600);
    answer(3, words(100, 4), 0);  // takes the first one's slot
    answer(4, words(600, 1) + words(300, 2) + words(20, 5), 600);
    EXPECT_EQ(cached(4), 900) << "the prompt's end";
    scheduler_.reset();
    cache_.reset();
  }
}

TEST_F(PrefixCacheTest, CheckpointsComeBackFromDisk) {
  for (const Mode mode : {Mode::window, Mode::hybrid, Mode::recurrent}) {
    SCOPED_TRACE(std::string(kvcache::name(mode)));
    sink_ = {};
    with_disk_ = true;
    records_.reset();
    start(1, mode);
    answer(1, words(600, 1) + words(300, 2), 600, 40);
    restart();
    answer(2, words(600, 1) + words(280, 3), 600);
    EXPECT_EQ(cached(2), 600);
    EXPECT_EQ(sink_.done[2].cached.disk, 600);
    scheduler_.reset();
    cache_.reset();
  }
}

// Spec 40 section 11.16.3: any interleaving gives every request its own text.
TEST_F(PrefixCacheTest, RandomInterleavingsNeverChangeAText) {
  for (const Mode mode : {Mode::full, Mode::window, Mode::hybrid, Mode::recurrent}) {
    SCOPED_TRACE(std::string(kvcache::name(mode)));
    sink_ = {};
    records_.reset();
    with_disk_ = true;
    host_budget_ = 60 * kKiB;
    start(3, mode);
    std::mt19937 random(7);
    std::map<RunId, std::pair<std::vector<Token>, int>> asked;
    RunId id = 0;
    for (int round = 0; round < 1'000; ++round) {
      const auto dice = random() % 100;
      if (dice < 25) {
        const int system = static_cast<int>(100 + 200 * (random() % 3));
        const auto prompt = words(system, static_cast<int>(random() % 3)) +
                            words(static_cast<int>(random() % 300), static_cast<int>(10 + random() % 6)) +
                            words(static_cast<int>(1 + random() % 40), static_cast<int>(20 + random() % 50));
        const int tokens = static_cast<int>(1 + random() % 60);
        RunSpec run = chat(++id, prompt, static_cast<std::uint32_t>(system), tokens);
        run.session = "s" + std::to_string(random() % 5);
        run.ephemeral = random() % 8 == 0;
        asked[id] = {prompt, tokens};
        scheduler_->submit(std::move(run));
      } else if (dice < 30 && id > 0) {
        scheduler_->cancel(1 + random() % id);
      } else if (dice == 30) {
        decoder_->refuse_imports = !decoder_->refuse_imports;
      } else if (dice == 31) {
        records_->accepts = !records_->accepts;
      } else if (dice == 32) {
        cache_->pressure(clock_.now());
      } else if (dice == 33) {
        scheduler_->drop_session("s" + std::to_string(random() % 5));
      } else if (dice == 34) {
        records_->damaged = !records_->damaged;
      } else if (dice == 35) {
        cache_->save_everything();
      } else if (scheduler_->runnable()) {
        scheduler_->step();
      } else {
        scheduler_->poke();
      }
      if (round % 50 == 0) ASSERT_EQ(cache_->tree().check(), "") << round;
    }
    for (int i = 0; i < 100'000 && (scheduler_->runnable() || scheduler_->wake_at()); ++i) {
      if (scheduler_->runnable()) {
        scheduler_->step();
      } else {
        clock_.advance(Millis(20'000));
        scheduler_->poke();
      }
    }
    EXPECT_EQ(sink_.done.size() + sink_.failed.size(), id);
    for (const auto& [run, result] : sink_.done)
      ASSERT_EQ(sink_.text[run], expected_text(asked[run].first, asked[run].second)) << run;
    EXPECT_EQ(cache_->tree().check(), "");
    scheduler_.reset();
    cache_.reset();
  }
}

}  // namespace
}  // namespace gezel::scheduler
