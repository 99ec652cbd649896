#include "service/gpu_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <map>

namespace gezel::service {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Read {
  GpuSettings settings;
  std::vector<std::string> ignored;
};
Read read(std::map<std::string, std::string, std::less<>> variables) {
  Read out;
  out.settings = read_gpu_settings(
      [&](std::string_view name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::string() : found->second;
      },
      out.ignored);
  return out;
}

TEST(GpuSettings, WithoutVariablesEverythingIsAsUsual) {
  const auto [settings, ignored] = read({});
  EXPECT_THAT(ignored, IsEmpty());
  EXPECT_EQ(settings.backend, std::nullopt);
  EXPECT_EQ(settings.policy, engine::GpuPolicy::automatic);
  EXPECT_EQ(settings.safety.mode, engine::SafetyMode::observe);
}

TEST(GpuSettings, VariablesAreReadByTheirNames) {
  const auto [settings, ignored] = read({{"GEZEL_DEVICE_SAFETY_MODE", "guard"},
                                         {"GEZEL_GPU_MEMORY_POLICY", "coexist"},
                                         {"GEZEL_SERIALIZE_GPU_LOADS", "on"},
                                         {"GEZEL_DEVICE_HEALTH_BIN", "/opt/health"},
                                         {"GEZEL_LLAMA_BACKEND", "vulkan"}});
  EXPECT_THAT(ignored, IsEmpty());
  EXPECT_TRUE(settings.serialize_loads);
  EXPECT_EQ(settings.health_helper, "/opt/health");
  EXPECT_EQ(settings.safety.mode, engine::SafetyMode::guard);
  EXPECT_EQ(settings.policy, engine::GpuPolicy::coexist);
  EXPECT_EQ(settings.backend, engine::Backend::vulkan);
  EXPECT_EQ(read({{"GEZEL_LLAMA_BACKEND", "auto"}}).settings.backend, std::nullopt);
}

TEST(GpuSettings, WhatSaysNothingIsNamedWithWhatItMaySay) {
  const auto [settings, ignored] = read({{"GEZEL_GPU_MEMORY_POLICY", "share"},
                                         {"GEZEL_LLAMA_BACKEND", "rocm"},
                                         {"GEZEL_SERIALIZE_GPU_LOADS", "1"},
                                         {"GEZEL_DEVICE_HEALTH_BIN", "health"}});
  ASSERT_EQ(ignored.size(), 4u);
  EXPECT_THAT(ignored[0], HasSubstr("GEZEL_SERIALIZE_GPU_LOADS is '1'; it may be on, off"));
  EXPECT_THAT(ignored[1], HasSubstr("GEZEL_GPU_MEMORY_POLICY is 'share'; it may be auto"));
  EXPECT_THAT(ignored[2], HasSubstr("GEZEL_DEVICE_HEALTH_BIN is 'health'; it must be the absolute path"));
  EXPECT_THAT(ignored[3], HasSubstr("GEZEL_LLAMA_BACKEND is 'rocm'"));
}

TEST(GpuSurvey, IsToldAsJson) {
  engine::GpuSurvey survey{.backend = engine::Backend::cuda, .reason = "r", .vendor = "nvidia"};
  survey.devices = {{.id = "CUDA0", .name = "NVIDIA GB10", .total_mib = 1024}};
  survey.nvidia = system::NvidiaMemory{.vram_bytes = kGiB, .unified = true, .devices = 1};
  survey.cards = {{.index = "0", .name = "NVIDIA GB10", .compute_capability = "12.1", .driver = "580.95"}};
  EXPECT_EQ(
      to_json(survey_json(survey)),
      R"({"backend":"cuda","reason":"r","vendor":"nvidia","devices":[{"id":"CUDA0","name":"NVIDIA GB10",)"
      R"("kind":"unified","total_bytes":1073741824}],"cached":false,"vram_bytes":1073741824,)"
      R"("driver":"580.95"})");
}

TEST(DeviceSafetyJson, NamesOtherProgramsOnlyToWhomTheyAreShown) {
  boost::asio::io_context io;
  ManualClock clock;
  const auto safety = std::make_shared<engine::DeviceSafety>(engine::DeviceSafety::Parts{
      .loop = io.get_executor(),
      .pool = io.get_executor(),
      .clock = clock,
      .timers = std::make_shared<engine::ManualTimers>(clock),
      .sample = [] { return engine::GpuSample(1); },
      .settings = {},
      .users =
          [] {
            return std::vector<system::GpuUser>{{.pid = 7, .program = "/home/iris/diary-app", .bytes = kGiB}};
          }});
  safety->refresh();
  while (io.poll() > 0) io.restart();
  EXPECT_THAT(to_json(device_safety_json(*safety, {}, true)), HasSubstr("diary-app"));
  EXPECT_FALSE(device_safety_json(*safety, {}, false).contains("users"));
}

TEST(EngineBackend, AMachineForAnotherOneIsToldWhyTheProcessorComputes) {
  const auto choice = choose_engine_backend({}, {.cuda_driver = true});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->backend, engine::Backend::cpu);
  EXPECT_THAT(choice->reason, HasSubstr("cuda has no build here"));
}

TEST(EngineBackend, AWishWithoutABuildIsRefused) {
  const auto choice = choose_engine_backend(engine::Backend::cuda, {.cuda_driver = true});
  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().message, HasSubstr("GEZEL_LLAMA_BACKEND is cuda"));
}

}  // namespace
}  // namespace gezel::service
