// Memory pressure of GPUs by the acceptance cases of the engine lifecycle (spec 30 section 3.7).
#include <gtest/gtest.h>

#include "capacity/evict.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using testing::gib;

TEST(DevicePressure, EnginesCase16_TwoCardsAreAddedUp) {
  const std::vector<DeviceMemory> cards{{.total = gib(24), .used = gib(23)},
                                        {.total = gib(8), .used = gib(6.5)}};
  EXPECT_TRUE(devices_pressured(cards)) << "2.5 GiB are free, 2.56 are the least";
  const IdleInput idle{.now_ms = 60'000, .pressured = devices_pressured(cards)};
  EXPECT_EQ(idle_step(idle), IdleStep::stop_pressure);
  IdleInput before = idle;
  before.now_ms = 59'999;
  EXPECT_EQ(idle_step(before), IdleStep::keep);
}

TEST(DevicePressure, ACardThatDoesNotTellCountsForNeitherSide) {
  EXPECT_TRUE(devices_pressured({{.total = gib(24), .used = gib(23)}, {.total = gib(80)}}));
  EXPECT_FALSE(devices_pressured({{.total = gib(24)}, {.used = gib(1)}}));
}

}  // namespace
}  // namespace gezel::capacity
