#include "capacity/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/evict.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

// --- making room

TEST(Evict, Case71_TheLeastUsedIdleEngineGoes) {
  BrokerSettings settings = card_settings();
  settings.budget = gib(24);
  settings.spillover = true;
  Broker broker(settings);
  ASSERT_TRUE(broker.reserve(kA, gib(10), "A"));
  ASSERT_TRUE(broker.reserve(kB, gib(10), "B"));
  const Bytes missing = broker.shortfall("llama-cpp:c:0", gib(8));
  EXPECT_EQ(missing, gib(4));
  const Victims victims =
      choose_victims({{.key = kA, .bytes = gib(10), .hits_last_minute = 3, .last_used_ms = 10},
                      {.key = kB, .bytes = gib(10), .hits_last_minute = 1, .last_used_ms = 20}},
                     missing, "llama-cpp:c:0");
  EXPECT_THAT(victims.stop, ElementsAre(kB));
  EXPECT_EQ(victims.drain, std::nullopt);
}

TEST(Evict, TiesGoToTheLongestUnusedAndBatchesCoverTheShortfall) {
  const std::vector<Resident> residents = {{.key = "new", .bytes = gib(2), .last_used_ms = 9},
                                           {.key = "old", .bytes = gib(2), .last_used_ms = 1},
                                           {.key = "mid", .bytes = gib(2), .last_used_ms = 5},
                                           {.key = "own", .bytes = gib(9), .last_used_ms = 0}};
  EXPECT_THAT(choose_victims(residents, gib(3), "own").stop, ElementsAre("old", "mid"));
  EXPECT_THAT(choose_victims(residents, gib(9), "own").stop, ElementsAre("old", "mid", "new"));
  EXPECT_TRUE(choose_victims(residents, 0, "own").empty());
}

TEST(Evict, Case72_ABusyEngineIsDrainedAndNeverKilled) {
  const std::vector<Resident> residents = {{.key = kA, .bytes = gib(10), .last_used_ms = 7, .busy = true},
                                           {.key = kB, .bytes = gib(10), .last_used_ms = 3, .busy = true}};
  const Victims victims = choose_victims(residents, kGiB, "llama-cpp:c:0");
  EXPECT_THAT(victims.stop, IsEmpty());
  EXPECT_EQ(victims.drain, kB);
  EXPECT_EQ(drain_step(1'000, 1'500, true), DrainStep::wait);
  EXPECT_EQ(drain_step(1'000, 30'999, true), DrainStep::wait);
  EXPECT_EQ(drain_step(1'000, 31'000, true), DrainStep::give_up);
  EXPECT_EQ(drain_step(1'000, 1'500, false), DrainStep::stop);
}

TEST(Evict, Case73_UnderPressureAnIdleEngineLeavesAfterAMinute) {
  const Bytes total = gib(24);
  EXPECT_TRUE(devices_pressured({{.total = total, .used = total - gib(1.9)}}));
  EXPECT_FALSE(devices_pressured({{.total = total, .used = total - gib(2)}}));
  EXPECT_FALSE(devices_pressured({}));
  EXPECT_FALSE(devices_pressured({{.total = total}}));
  const IdleInput idle{.now_ms = 61'000, .pressured = true};
  EXPECT_EQ(idle_step(idle), IdleStep::stop_pressure);
  IdleInput calm = idle;
  calm.pressured = false;
  EXPECT_EQ(idle_step(calm), IdleStep::keep);
}

TEST(Evict, AnIdleEngineSavesItsCachesAtHalfTimeAndStopsAtTheEnd) {
  EXPECT_EQ(idle_step({.now_ms = 149'999}), IdleStep::keep);
  EXPECT_EQ(idle_step({.now_ms = 150'000}), IdleStep::flush);
  EXPECT_EQ(idle_step({.now_ms = 150'000, .flushed = true}), IdleStep::keep);
  EXPECT_EQ(idle_step({.now_ms = 300'000}), IdleStep::stop_idle);
  EXPECT_EQ(idle_step({.now_ms = 300'000, .busy = true}), IdleStep::keep);
  EXPECT_EQ(idle_step({.now_ms = 300'000, .idle_timeout_ms = 0}), IdleStep::keep);
  EXPECT_EQ(idle_step({.now_ms = 59'999, .idle_timeout_ms = 1, .flushed = true}), IdleStep::keep);
}

}  // namespace
}  // namespace gezel::capacity
