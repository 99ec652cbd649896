// GPUs that are as warm as the test wants, and a clock that is moved by hand.
#include "engine/device_safety.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <map>

namespace gezel::engine {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Verdict = SafetyWait::Verdict;

GpuSample at(double celsius, std::optional<double> margin = {}) {
  return {system::GpuHealth{
      .vendor = "nvidia", .id = "0", .name = "card", .temperature_c = celsius, .margin_c = margin}};
}

TEST(SafetyPolicy, WhatMakesADeviceInadmissible) {
  const auto problem = [](system::GpuHealth gpu) { return device_problem(gpu, 80, 8); };
  EXPECT_EQ(problem({.temperature_c = 80, .margin_c = 8}), "");
  EXPECT_THAT(problem({.name = "card", .temperature_c = 80.5}), HasSubstr("card"));
  EXPECT_NE(problem({.temperature_c = 50, .margin_c = 7}), "");
  EXPECT_NE(problem({.thermal_slowdown = true}), "");
  EXPECT_NE(problem({.power_brake = true}), "");
  EXPECT_EQ(problem({}), "") << "an unknown margin is not 0";
}

// Acceptance case 33.
TEST(SafetyPolicy, AWarmGpuStartsWhileObservedAndCoolsFirstWhileGuarded) {
  const SafetySettings observe, guard{.mode = SafetyMode::guard};
  EXPECT_EQ(SafetyWait(observe).judge(at(81), Millis(0)), Verdict::admit);
  SafetyWait wait(guard);
  EXPECT_EQ(wait.judge(at(81), Millis(0)), Verdict::wait);
  EXPECT_EQ(wait.judge(at(76), Millis(5'000)), Verdict::wait);
  EXPECT_EQ(wait.judge(at(75), Millis(10'000)), Verdict::wait);
  EXPECT_EQ(wait.judge(at(74), Millis(15'000)), Verdict::wait);
  EXPECT_EQ(wait.judge(at(75), Millis(20'000)), Verdict::admit);
  EXPECT_EQ(SafetyWait(guard).judge(at(79), Millis(0)), Verdict::admit)
      << "one good sample is enough at first";
}

// Acceptance case 34.
TEST(SafetyPolicy, OnlyTheHardLimitDelaysWhileObserving) {
  const SafetySettings observe;
  EXPECT_EQ(SafetyWait(observe).judge(at(105), Millis(0)), Verdict::admit);
  SafetyWait wait(observe);
  EXPECT_EQ(wait.judge(at(106), Millis(0)), Verdict::wait);
  EXPECT_EQ(wait.judge(at(105), Millis(5'000)), Verdict::admit);
  EXPECT_EQ(SafetyWait(observe).judge(at(106), Millis(600'000)), Verdict::unsafe);
}

TEST(SafetyPolicy, WithoutReadingsOnlyAGuardThatIsToldSoWaits) {
  const SafetySettings observe{.block_without_readings = true}, allow{.mode = SafetyMode::guard},
      block{.mode = SafetyMode::guard, .block_without_readings = true};
  EXPECT_EQ(SafetyWait(observe).judge({}, Millis(0)), Verdict::admit);
  EXPECT_EQ(SafetyWait(allow).judge({}, Millis(0)), Verdict::admit);
  EXPECT_EQ(SafetyWait(block).judge({}, Millis(0)), Verdict::wait);
  EXPECT_EQ(SafetyWait(block).judge({}, Millis(600'000)), Verdict::unsafe);
}

TEST(SafetyPolicy, SwitchedOffItNeverDelays) {
  const SafetySettings off{.mode = SafetyMode::off};
  EXPECT_EQ(SafetyWait(off).judge(at(120), Millis(0)), Verdict::admit);
}

TEST(SafetySettings, AreReadWithinTheirRangesAndTheRestIsNamed) {
  std::map<std::string, std::string, std::less<>> variables{
      {"MODE", "guard"},  {"MAX_START_TEMP_C", "70"}, {"RESUME_TEMP_C", "90"},
      {"POLL_MS", "100"}, {"HEALTHY_SAMPLES", "x"},   {"TELEMETRY_FAILURE", "block"}};
  std::vector<std::string> ignored;
  const auto settings =
      safety_settings([&](std::string_view name) { return variables[std::string(name)]; }, ignored);
  EXPECT_EQ(settings.mode, SafetyMode::guard);
  EXPECT_EQ(settings.max_start_c, 70);
  EXPECT_EQ(settings.resume_c, 70) << "never above the start limit";
  EXPECT_EQ(settings.poll, Millis(5'000));
  EXPECT_EQ(settings.healthy_samples, 3);
  EXPECT_TRUE(settings.block_without_readings);
  ASSERT_EQ(ignored.size(), 2u);
  EXPECT_THAT(ignored[0], HasSubstr("GEZEL_DEVICE_SAFETY_POLL_MS is '100'; it must be a number from 500"));
  EXPECT_THAT(ignored[1], HasSubstr("HEALTHY_SAMPLES"));
}

class DeviceSafetyTest : public testing::Test {
 protected:
  void make(SafetySettings settings) {
    safety = std::make_shared<DeviceSafety>(DeviceSafety::Parts{.loop = io.get_executor(),
                                                                .pool = io.get_executor(),
                                                                .clock = clock,
                                                                .timers = timers,
                                                                .sample =
                                                                    [this] {
                                                                      ++looks;
                                                                      if (broken)
                                                                        throw std::runtime_error("no memory");
                                                                      return sample;
                                                                    },
                                                                .settings = settings,
                                                                .users = [this] { return users; }});
  }
  void settle() {
    do io.restart();
    while (io.poll() > 0);
  }
  void pass(Millis time) {
    timers->advance(time, [this] { settle(); });
    settle();
  }
  using Answer = std::shared_ptr<std::optional<EngineResult<>>>;
  Answer ask(std::function<bool()> wanted = [] { return true; }) {
    auto out = std::make_shared<std::optional<EngineResult<>>>();
    asio::co_spawn(io, safety->admit(std::move(wanted)),
                   [out](const std::exception_ptr&, EngineResult<> result) { *out = std::move(result); });
    settle();
    return out;
  }

  asio::io_context io;
  ManualClock clock;
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  GpuSample sample = at(50);
  std::vector<system::GpuUser> users;
  int looks = 0;
  bool broken = false;
  std::shared_ptr<DeviceSafety> safety;
};

constexpr SafetySettings kGuard{.mode = SafetyMode::guard};

TEST_F(DeviceSafetyTest, ThoseWhoWaitTogetherShareOneVerdict) {
  make(kGuard);
  sample = at(90);
  auto first = ask();
  auto second = ask();
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(safety->state(), SafetyState::cooling);
  sample = at(60);
  pass(Millis(10'000));
  EXPECT_FALSE(*first);
  pass(Millis(5'000));
  EXPECT_TRUE(*first && **first);
  EXPECT_TRUE(*second && **second);
  EXPECT_EQ(looks, 4);
  EXPECT_EQ(safety->state(), SafetyState::healthy);
}

TEST_F(DeviceSafetyTest, TheLongestWaitEndsInAnErrorAndBlocks) {
  make(kGuard);
  sample = at(90);
  auto answer = ask();
  pass(Millis(600'000));
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->error().error.code, "device-unsafe");
  EXPECT_THAT((*answer)->error().error.message, HasSubstr("90 °C"));
  EXPECT_EQ(safety->state(), SafetyState::blocked);
}

TEST_F(DeviceSafetyTest, WhoNoLongerWantsItLeavesTheOthersWaiting) {
  make(kGuard);
  sample = at(90);
  bool wanted = true;
  auto leaves = ask([&] { return wanted; });
  auto stays = ask();
  wanted = false;
  pass(Millis(5'000));
  ASSERT_TRUE(*leaves);
  EXPECT_EQ((*leaves)->error().error.code, "cancelled");
  EXPECT_FALSE(*stays);
  sample = at(50);
  pass(Millis(15'000));
  EXPECT_TRUE(*stays && **stays);
}

TEST_F(DeviceSafetyTest, StatesAreWhatTheLastSampleSays) {
  make({});
  EXPECT_EQ(safety->state(), SafetyState::unavailable);
  safety->refresh();
  settle();
  EXPECT_EQ(safety->state(), SafetyState::healthy);
  sample = at(81);
  safety->refresh();
  settle();
  EXPECT_EQ(safety->state(), SafetyState::healthy) << "a sample of this moment is used again";
  pass(Millis(5'000));
  safety->refresh();
  settle();
  EXPECT_EQ(safety->state(), SafetyState::warm);
  EXPECT_TRUE(**ask());
  sample = at(106);
  pass(Millis(5'000));
  safety->refresh();
  settle();
  EXPECT_EQ(safety->state(), SafetyState::blocked);
}

TEST_F(DeviceSafetyTest, WhoHoldsMemoryIsSeenWithTheSample) {
  make({});
  users = {{.pid = 7, .program = "/usr/bin/ollama", .bytes = kGiB}};
  safety->refresh();
  settle();
  ASSERT_EQ(safety->last_users().size(), 1u);
  EXPECT_EQ(safety->last_users()[0].program, "/usr/bin/ollama");
}

TEST_F(DeviceSafetyTest, ALookThatFailsIsOneWithoutReadings) {
  make({});
  broken = true;
  const auto answer = ask();
  ASSERT_TRUE(*answer);
  EXPECT_TRUE(**answer);
  EXPECT_EQ(safety->state(), SafetyState::unavailable);
  broken = false;
  pass(Millis(5'000));
  safety->refresh();
  settle();
  EXPECT_EQ(safety->state(), SafetyState::healthy);
}

TEST_F(DeviceSafetyTest, WithoutAGpuNothingIsLookedAt) {
  safety = std::make_shared<DeviceSafety>(DeviceSafety::Parts{.loop = io.get_executor(),
                                                              .pool = io.get_executor(),
                                                              .clock = clock,
                                                              .timers = timers,
                                                              .sample = {},
                                                              .settings = kGuard});
  EXPECT_TRUE(**ask());
  safety->refresh();
  settle();
  EXPECT_EQ(safety->state(), SafetyState::unavailable);
}

}  // namespace
}  // namespace gezel::engine
