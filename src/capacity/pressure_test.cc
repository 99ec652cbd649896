#include "capacity/pressure.h"

#include <gtest/gtest.h>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

PressureSample well() {
  return {.some_avg10 = 0, .full_avg10 = 0, .available = gib(32), .total = gib(64)};
}

TEST(Pressure, EveryLimitIsExact) {
  const auto broken = [](const std::function<void(PressureSample&)>& change) {
    PressureSample sample = well();
    change(sample);
    return pressure_source(sample);
  };
  EXPECT_EQ(broken([](auto&) {}), PressureSource::none);
  EXPECT_EQ(broken([](auto& s) { s.some_avg10 = 1000; }), PressureSource::some_stall);
  EXPECT_EQ(broken([](auto& s) { s.some_avg10 = 999; }), PressureSource::none);
  EXPECT_EQ(broken([](auto& s) { s.full_avg10 = 200; }), PressureSource::full_stall);
  EXPECT_EQ(broken([](auto& s) { s.full_avg10 = 199; }), PressureSource::none);
  EXPECT_EQ(broken([](auto& s) { s.total = 1000, s.available = 49; }), PressureSource::available);
  EXPECT_EQ(broken([](auto& s) { s.total = 1000, s.available = 50; }), PressureSource::none);
  EXPECT_EQ(broken([](auto& s) { s.group_used = 95, s.group_limit = 100; }), PressureSource::group);
  EXPECT_EQ(broken([](auto& s) { s.group_used = 94, s.group_limit = 100; }), PressureSource::none);
  EXPECT_EQ(pressure_source({}), PressureSource::none);
}

TEST(Pressure, ASampleIsMadeOfWhatTheSystemSays) {
  const PressureSample sample = pressure_sample(
      {.machine = system::Stall{100, 20}, .group = system::Stall{50, 300}, .group_used = 1, .group_limit = 2},
      {.total = gib(8), .available = gib(1)});
  EXPECT_EQ(sample.some_avg10, 100);
  EXPECT_EQ(sample.full_avg10, 300);
  EXPECT_EQ(sample.available, gib(1));
  EXPECT_EQ(sample.group_limit, 2u);
}

TEST(Pressure, StepsAreTakenInOrderWhileItLasts) {
  PressureSample tight = well();
  tight.some_avg10 = 2500;
  PressureState state = next_pressure({}, tight, 1'000);
  EXPECT_EQ(state.step, PressureStep::drop_host_caches);
  state = next_pressure(state, tight, 10'999);
  EXPECT_EQ(state.step, PressureStep::drop_host_caches);
  state = next_pressure(state, tight, 11'000);
  EXPECT_EQ(state.step, PressureStep::stop_idle_engines);
  state = next_pressure(state, tight, 21'000);
  EXPECT_EQ(state.step, PressureStep::refuse_loads);
  EXPECT_EQ(next_pressure(state, tight, 99'000).step, PressureStep::refuse_loads);
}

TEST(Pressure, ItEndsAfterHalfAMinuteAtHalfTheLimits) {
  PressureSample tight = well(), between = well(), calm = well();
  tight.available = gib(1);
  between.available = gib(5);  // above 5 %, below 10 %
  calm.some_avg10 = 500;
  calm.full_avg10 = 100;
  PressureState state = next_pressure({}, tight, 0);
  state = next_pressure(state, between, 5'000);
  EXPECT_TRUE(state.pressured());
  state = next_pressure(state, calm, 10'000);
  state = next_pressure(state, calm, 39'999);
  EXPECT_TRUE(state.pressured());
  PressureState disturbed = next_pressure(state, between, 39'999);
  disturbed = next_pressure(disturbed, calm, 40'000);
  EXPECT_TRUE(next_pressure(disturbed, calm, 69'999).pressured());
  EXPECT_FALSE(next_pressure(disturbed, calm, 70'000).pressured());
  EXPECT_FALSE(next_pressure(state, calm, 40'000).pressured());
}

TEST(Pressure, AGroupHasToStayBelowNineTenths) {
  PressureSample sample = well();
  sample.group_limit = 100;
  sample.group_used = 90;
  EXPECT_FALSE(is_calm(sample));
  sample.group_used = 89;
  EXPECT_TRUE(is_calm(sample));
}

TEST(Pressure, BetweenTheLimitsACalmMachineStaysCalm) {
  PressureSample between = well();
  between.some_avg10 = 900;
  EXPECT_FALSE(next_pressure({}, between, 5'000).pressured());
}

}  // namespace
}  // namespace gezel::capacity
