#include "service/gpu_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
                                         {"GEZEL_LLAMA_BACKEND", "vulkan"}});
  EXPECT_THAT(ignored, IsEmpty());
  EXPECT_EQ(settings.safety.mode, engine::SafetyMode::guard);
  EXPECT_EQ(settings.policy, engine::GpuPolicy::coexist);
  EXPECT_EQ(settings.backend, engine::Backend::vulkan);
  EXPECT_EQ(read({{"GEZEL_LLAMA_BACKEND", "auto"}}).settings.backend, std::nullopt);
}

TEST(GpuSettings, WhatSaysNothingIsNamedWithWhatItMaySay) {
  const auto [settings, ignored] =
      read({{"GEZEL_GPU_MEMORY_POLICY", "share"}, {"GEZEL_LLAMA_BACKEND", "rocm"}});
  ASSERT_EQ(ignored.size(), 2u);
  EXPECT_THAT(ignored[0], HasSubstr("GEZEL_GPU_MEMORY_POLICY is 'share'; it may be auto"));
  EXPECT_THAT(ignored[1], HasSubstr("GEZEL_LLAMA_BACKEND is 'rocm'"));
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
