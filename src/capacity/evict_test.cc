#include "capacity/evict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/broker.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char *kA = "llama-cpp:a:0", *kB = "llama-cpp:b:0";

TEST(Evict, Case71_TheLeastUsedIdleEngineGoes) {
  const MemoryProfile host = card_host(16, 48);
  BrokerSettings settings{.pools = host.budget, .total_ram = host.total_ram_bytes};
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
