// Memory that can be had without stopping anybody: caches of computed prompts, and what is lent to measure.
#include "engine/test_admission.h"

namespace gezel::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// --- caches of computed prompts, spec 40 section 11.9.5

TEST_F(AdmissionTest, CachesAreMadeSmallerBeforeAnybodyIsStopped) {
  Paper a{"a", 4 * kGiB}, b{"b", 4 * kGiB};
  a.cache = 5 * kGiB;
  load(a);
  ask(b);
  EXPECT_THAT(b.notices, ElementsAre("waiting for memory of computed prompts"));
  EXPECT_EQ(a.trims, 1);
  admission->changed();
  run();
  EXPECT_EQ(a.trims, 1) << "it is on its way";
  trimmed(a, 5 * kGiB / 2);
  EXPECT_FALSE(b.seat);
  EXPECT_EQ(a.trims, 2) << "half was not enough";
  trimmed(a, 5 * kGiB / 4);
  EXPECT_TRUE(b.seat);
  EXPECT_EQ(a.unloads, 0);
  EXPECT_EQ(admission->broker().view().committed, 4 * kGiB + 5 * kGiB / 4 + 4 * kGiB);
  EXPECT_EQ(admission->reservations().front().bytes.cache, 5 * kGiB / 4);
}

TEST_F(AdmissionTest, AnEngineIsStoppedWhenItsCacheHasNothingLeftToGive) {
  Paper a{"a", 4 * kGiB}, b{"b", 4 * kGiB};
  a.cache = 5 * kGiB;
  load(a);
  ask(b);
  trimmed(a, 5 * kGiB);
  EXPECT_EQ(a.trims, 1);
  EXPECT_EQ(a.unloads, 1);
}

TEST_F(AdmissionTest, NoCacheIsMadeSmallerWhereThatDoesNotHelp) {
  Paper a{"a", 8 * kGiB}, b{"b", 8 * kGiB};
  a.cache = kGiB;
  load(a);
  ask(b);
  EXPECT_EQ(a.trims, 0);
  EXPECT_EQ(a.unloads, 1);
}

TEST_F(AdmissionTest, ABusyEnginesCacheIsMadeSmallerWhileItWorks) {
  Paper a{"a", 4 * kGiB, true}, b{"b", 4 * kGiB};
  a.cache = 4 * kGiB;
  load(a);
  ask(b);
  trimmed(a, 2 * kGiB);
  EXPECT_TRUE(b.seat);
  EXPECT_FALSE(a.gives_way);
}

TEST_F(AdmissionTest, WhatAnEngineWasSeenToHoldBeforeItGaveMemoryBackNoLongerCounts) {
  Paper a{"a", 4 * kGiB}, b{"b", 4 * kGiB};
  a.cache = 5 * kGiB;
  load(a);
  a.seat->observed(9 * kGiB);
  ask(b);
  trimmed(a, 2 * kGiB);
  EXPECT_TRUE(b.seat);
}

// The memory of workers that only measure.
class Measuring : public AdmissionTest {
 protected:
  void measure(const std::string& key, std::unique_ptr<Seat>& seat) {
    asio::co_spawn(
        io,
        [this, key, &seat]() -> asio::awaitable<void> { seat = co_await admission->enter_to_measure(key); },
        asio::detached);
    run();
  }
  std::unique_ptr<Seat> seat;
};

TEST_F(Measuring, IsCountedWhileItLastsAndShown) {
  measure("llama-cpp:a:0", seat);
  ASSERT_TRUE(seat);
  EXPECT_EQ(admission->broker().view().committed, kMeasuringBytes);
  const auto held = admission->reservations();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].key, "dry-run:llama-cpp:a:0");
  EXPECT_EQ(held[0].charged, kMeasuringBytes);
  EXPECT_EQ(held[0].bytes.total(), kMeasuringBytes);
  seat.reset();
  EXPECT_EQ(admission->broker().view().committed, 0U);
  EXPECT_THAT(admission->reservations(), IsEmpty());
}

TEST_F(Measuring, IsDoneByOneWorkerAtATime) {
  std::unique_ptr<Seat> second;
  measure("llama-cpp:a:0", seat);
  measure("llama-cpp:b:0", second);
  EXPECT_FALSE(second);
  seat.reset();
  run();
  EXPECT_TRUE(second);
  EXPECT_EQ(admission->broker().view().committed, kMeasuringBytes);
}

TEST_F(Measuring, NeitherStopsNorRefusesAModelThatFitsWithoutIt) {
  Paper a{"a", 4 * kGiB}, b{"b", 6 * kGiB}, large{"large", kBudget};
  load(a);
  measure("llama-cpp:c:0", seat);
  ask(b);
  EXPECT_EQ(a.unloads, 0);
  EXPECT_FALSE(b.outcome);
  EXPECT_THAT(b.notices, ElementsAre("waiting for a model to be measured"));
  seat.reset();
  run();
  EXPECT_TRUE(b.seat);
  a.seat.reset();
  b.seat.reset();
  measure("llama-cpp:c:0", seat);
  ask(large);
  EXPECT_FALSE(large.outcome) << "not denied for what is free again in a moment";
  seat.reset();
  run();
  EXPECT_TRUE(large.seat);
}

TEST_F(Measuring, IsWaitedForNoLongerThanAnEnginesResidency) {
  Paper large{"large", kBudget};
  measure("llama-cpp:c:0", seat);
  ask(large);
  EXPECT_FALSE(large.outcome);
  pass(kLeastResidency);
  ASSERT_TRUE(large.outcome);
  EXPECT_EQ(large.outcome->error().error.code, "capacity-denied");
}

TEST_F(Measuring, WaitsForNobodyAndHoldsUpNobodyWhoHasRoom) {
  Paper a{"a", kBudget}, b{"b", kGiB};
  load(a);
  measure("llama-cpp:c:0", seat);
  EXPECT_TRUE(seat) << "without it no load could be planned";
  a.seat.reset();
  ask(b);
  EXPECT_TRUE(b.seat);
}

// Memory that an idle engine borrowed to measure itself, where loads want it.
class Loans : public AdmissionTest {
 protected:
  void borrow(const Paper& paper, Bytes bytes) {
    loan = admission->borrow(capacity::ledger_key("llama-cpp", paper.name, 0), bytes, [this] {
      ++asked_back;
      if (gives_back_at_once) loan.reset();
    });
    ASSERT_TRUE(loan);
  }
  std::unique_ptr<Seat> loan;
  int asked_back = 0;
  bool gives_back_at_once = false;
};

TEST_F(Loans, AreShownAndAddUp) {
  Paper a{"a", 4 * kGiB};
  load(a);
  borrow(a, kGiB);
  Bytes sum = 0;
  for (const auto& held : admission->reservations()) sum += held.charged;
  EXPECT_EQ(sum, admission->broker().view().committed);
  EXPECT_EQ(admission->reservations().back().key, "borrowed:llama-cpp:a:0");
  loan.reset();
  EXPECT_EQ(admission->reservations().size(), 1u);
}

TEST_F(Loans, OnlyOneEngineMeasuresAtATime) {
  Paper a{"a", kGiB}, b{"b", kGiB};
  load(a);
  load(b);
  borrow(a, kGiB);
  EXPECT_FALSE(admission->borrow("llama-cpp:b:0", kGiB, [] {}));
  loan.reset();
  EXPECT_TRUE(admission->borrow("llama-cpp:b:0", kGiB, [] {}));
}

TEST_F(Loans, NoneIsMadeWhileALoadWaits) {
  Paper a{"a", 9 * kGiB}, b{"b", 9 * kGiB};
  load(a);
  a.busy = true;
  ask(b);
  ASSERT_FALSE(b.outcome);
  EXPECT_FALSE(admission->borrow("llama-cpp:a:0", kGiB / 2, [] {}));
}

TEST_F(Loans, ALoadThatFitsLeavesThem) {
  Paper a{"a", kGiB}, b{"b", kGiB};
  load(a);
  borrow(a, kGiB);
  load(b);
  EXPECT_EQ(asked_back, 0);
}

TEST_F(Loans, ComeBackBeforeAnybodyIsStoppedOrRefused) {
  for (const bool busy : {false, true}) {
    for (const bool at_once : {false, true}) {
      Paper a{"a", 4 * kGiB}, b{"b", 6 * kGiB};
      load(a);
      a.busy = busy;
      gives_back_at_once = at_once;
      asked_back = 0;
      borrow(a, kGiB);
      ask(b);
      EXPECT_EQ(asked_back, 1);
      if (!at_once) {
        ASSERT_FALSE(b.outcome);
        EXPECT_THAT(b.notices, ElementsAre("waiting for a model's measurement to end"));
        loan.reset();
        run();
      }
      EXPECT_TRUE(b.seat);
      EXPECT_EQ(a.unloads, 0);
    }
  }
}

TEST_F(Loans, OneThatDoesNotComeBackEndsWithItsEngine) {
  Paper a{"a", 4 * kGiB}, b{"b", 9 * kGiB};
  load(a);
  borrow(a, kGiB);
  ask(b);
  EXPECT_EQ(a.unloads, 0);
  pass(kLeastResidency);
  EXPECT_EQ(a.unloads, 1) << "what it holds and what it borrowed make room together";
  EXPECT_EQ(asked_back, 1);
  loan.reset();
  a.seat.reset();
  run();
  EXPECT_TRUE(b.seat);
}

TEST_F(Loans, AreTheOwnersInItsOwnPlans) {
  Paper a{"a", 4 * kGiB}, b{"b", kGiB};
  load(a);
  load(b);
  borrow(a, kGiB);
  EXPECT_EQ(admission->state_for("llama-cpp:a:0").committed_other, kGiB);
  EXPECT_EQ(admission->state_without_model("llama-cpp:a:0").committed_other, kGiB);
  EXPECT_EQ(admission->state_without_model("llama-cpp:b:0").committed_other, 5 * kGiB);
}

}  // namespace
}  // namespace gezel::engine
