#include "capacity/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char *kA = "llama-cpp:a:0", *kB = "llama-cpp:b:0";

// A card of 16 GiB beside 48 GiB of main memory.
BrokerSettings card_settings() {
  const MemoryProfile host = card_host(16, 48);
  return {.pools = host.budget, .total_ram = host.total_ram_bytes};
}

TEST(Broker, Case66_OneModelMaySpillIntoMainMemory) {
  Broker broker(card_settings());
  EXPECT_TRUE(broker.reserve(kA, gib(30), "A"));
  EXPECT_EQ(broker.view().committed, gib(30));
}

TEST(Broker, Case67_ASecondModelMayNotPushTheSetOffTheCard) {
  Broker broker(card_settings());
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  EXPECT_EQ(broker.shortfall(kB, gib(4)), 0u);
  EXPECT_EQ(broker.shortfall(kB, gib(8)), 3'006'477'108u);
  EXPECT_EQ(broker.shortfall(kB, gib(30)), gib(10));
  EXPECT_EQ(broker.shortfall(kB, gib(50)), 17'179'869'185u);
  EXPECT_GT(broker.shortfall(kB, gib(50)), broker.committed_other(kB));
}

TEST(Broker, Case68_WithSpilloverTheWholeBudgetCounts) {
  BrokerSettings settings = card_settings();
  settings.spillover = true;
  Broker broker(settings);
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  EXPECT_EQ(broker.shortfall(kB, gib(8)), 0u);
  EXPECT_EQ(broker.shortfall(kA, gib(14)), 0u);
  Broker strict(card_settings());
  ASSERT_TRUE(strict.reserve(kA, gib(10), "A"));
  EXPECT_EQ(strict.shortfall(kA, gib(14)), 0u);
}

TEST(Broker, Case69_ATinyBudgetTurnsEnforcementOff) {
  BrokerSettings settings = card_settings();
  settings.budget = kGiB / 2;
  Broker broker(settings);
  EXPECT_TRUE(broker.reserve(kA, gib(500), "A"));
  EXPECT_FALSE(broker.view().enforced);
  EXPECT_EQ(broker.view().committed, gib(500));
}

TEST(Broker, Case70_ALoweredBudgetEvictsNobody) {
  Broker broker(card_settings());
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  broker.set_budget(gib(5));
  EXPECT_EQ(broker.view().committed, gib(10));
  EXPECT_FALSE(broker.reserve(kB, 1, "B"));
  broker.release(kA);
  EXPECT_TRUE(broker.reserve(kB, 1, "B"));
}

TEST(Broker, AFailedEnlargementKeepsTheOldFigure) {
  Broker broker(card_settings());
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  EXPECT_FALSE(broker.reserve(kA, gib(90), "A"));
  EXPECT_EQ(broker.view().committed, gib(10));
  broker.release("nobody");
  EXPECT_EQ(broker.view().committed, gib(10));
}

TEST(Broker, WhatTheOperatorTakesOnIsRecordedAllTheSame) {
  Broker broker(card_settings());
  broker.record(kA, gib(90));
  EXPECT_EQ(broker.view().committed, gib(90));
  EXPECT_FALSE(broker.reserve(kB, 1, "B"));
}

TEST(Broker, TheLargerOfGrantAndMeasuredPeakCounts) {
  Broker broker(card_settings());
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  broker.measure(kA, gib(4));
  EXPECT_EQ(broker.view().committed, gib(10));  // the rest may still be touched
  broker.measure(kA, gib(4), gib(5));           // the worker said what it allocated
  EXPECT_EQ(broker.view().committed, gib(5));
  broker.measure(kA, gib(7));
  broker.measure(kA, gib(6));
  EXPECT_EQ(broker.view().committed, gib(7));
  broker.release(kA);
  broker.measure(kA, gib(7));
  EXPECT_EQ(broker.view().committed, 0u);
}

TEST(Broker, OtherModelsAreCountedWithAllTheirReplicas) {
  Broker broker(card_settings());
  for (const char* key : {"llama-cpp:a:b:0", "llama-cpp:a:b:1", "mlx:a:b:0", "llama-cpp:c:0"})
    ASSERT_TRUE(broker.reserve(key, kGiB, "M"));
  EXPECT_EQ(broker.committed_other("llama-cpp:a:b:0"), gib(3));
  EXPECT_EQ(broker.committed_by_other_models("llama-cpp", "a:b"), gib(2));
}

TEST(Broker, KeysAreExact) {
  const auto key = parse_ledger_key("llama-cpp:hf:org/model:q4:12");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->engine, "llama-cpp");
  EXPECT_EQ(key->model, "hf:org/model:q4");
  EXPECT_EQ(key->replica, 12);
  EXPECT_EQ(ledger_key(key->engine, key->model, key->replica), "llama-cpp:hf:org/model:q4:12");
  for (const char* bad :
       {"", "a", "a:b", ":b:0", "a::0", "a:b:", "a:b:-1", "a:b:+1", "a:b:01", "a:b:x", "a:b:0 "})
    EXPECT_FALSE(parse_ledger_key(bad)) << bad;
}

TEST(Broker, ASnapshotListsTheLargestFirst) {
  Broker broker(card_settings());
  ASSERT_TRUE(broker.reserve(kA, gib(1), "A"));
  ASSERT_TRUE(broker.reserve(kB, gib(2), "B"));
  const BrokerSnapshot snapshot = broker.snapshot();
  ASSERT_EQ(snapshot.by_key.size(), 2u);
  EXPECT_EQ(snapshot.by_key[0].first, kB);
  EXPECT_EQ(snapshot.rules.committed, gib(3));
  EXPECT_EQ(snapshot.auto_budget, 47'244'640'255u);
  EXPECT_EQ(snapshot.rules.co_residency, 16'320'875'724u);
  EXPECT_FALSE(snapshot.spillover_auto);
  EXPECT_FALSE(snapshot.overridden);
}

// --- denials

TEST(Denial, OverBudgetSaysHowTheBudgetIsComposed) {
  Broker broker(card_settings());
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  const auto denied = broker.reserve(kB, gib(50), "Big Model");
  ASSERT_FALSE(denied);
  const Denial& denial = denied.error();
  EXPECT_EQ(denial.rule, DenialRule::budget);
  EXPECT_EQ(denial.error.code, "capacity-denied");
  EXPECT_EQ(
      denial.error.message,
      "Big Model needs 50.0 GiB of memory, and 34.0 GiB are free for models. Models may use 44.0 GiB, which "
      "is 15.2 GiB of graphics memory and 28.8 GiB of this machine's 48.0 GiB of main memory. Other models "
      "hold 10.0 GiB of it. Choose a smaller or more strongly quantized model, or raise the memory budget "
      "for models at your own risk.");
  EXPECT_EQ(denial_record(denial),
            "key=llama-cpp:b:0 bytes=53687091200 would_commit=64424509440 limit=47244640255 rule=budget");
  EXPECT_EQ(context_sizing_status(denial), "insufficient-memory");
}

TEST(Denial, WithoutACardTheBudgetIsAPartOfTheMachine) {
  const MemoryProfile host = plain_host(24);
  Broker broker({.pools = host.budget, .total_ram = host.total_ram_bytes});
  EXPECT_THAT(broker.reserve(kA, gib(20), "M").error().error.message,
              HasSubstr("Models may use 14.4 GiB, which is about 60 % of this machine's 24.0 GiB."));
}

TEST(Denial, BesideBusyModelsNobodyIsToldToTakeASmallerModel) {
  Broker broker(card_settings());
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  const auto denied = broker.reserve(kB, gib(8), "B");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().rule, DenialRule::co_residency);
  EXPECT_THAT(denied.error().error.message, AllOf(HasSubstr("graphics memory"), HasSubstr("Wait"),
                                                  HasSubstr("spill"), Not(HasSubstr("smaller"))));
  EXPECT_EQ(denied.error().limit, 16'320'875'724u);
}

TEST(Denial, TextsForPeopleHaveNoRawBytesAndNoVariables) {
  const Denial denials[] = {deny_over_budget("M", gib(5), {.budget = gib(2), .total_ram = gib(4)}),
                            deny_co_residency("M"), deny_context("M", 65'536, 36'864, "Because."),
                            deny_stale_window("M", 8'192, 65'536), deny_generically()};
  for (const Denial& denial : denials) {
    EXPECT_THAT(denial.error.message, AllOf(Not(HasSubstr("GEZEL")), Not(HasSubstr("bytes"))));
    EXPECT_EQ(denial.error.kind, ErrorKind::unavailable);
  }
  EXPECT_EQ(context_sizing_status(denials[3]), "restart-required");
  EXPECT_EQ(denials[3].reason, "resident-below-minimum");
}

TEST(Broker, WhatAnEngineHasForAWhileCountsAsItsOwn) {
  Broker broker(BrokerSettings{});
  const std::string key = ledger_key("llama-cpp", "a:b", 0);
  broker.record(key, 100);
  broker.record(lent_key(key), 10);
  broker.record(ledger_key("llama-cpp", "c", 0), 1);
  EXPECT_EQ(broker.view().committed, 111u);
  EXPECT_EQ(broker.committed_other(key), 1u);
  EXPECT_EQ(broker.committed_by_other_models("llama-cpp", "a:b"), 1u);
  EXPECT_EQ(broker.committed_by_other_models("llama-cpp", "c"), 110u);
  EXPECT_EQ(broker.committed_other(lent_key(key)), 101u) << "it is asked for beside the engine's own";
}

}  // namespace
}  // namespace gezel::capacity
