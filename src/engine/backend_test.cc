#include "engine/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::engine {
namespace {

using testing::HasSubstr;
using enum Backend;

constexpr std::array kAll = {cpu, vulkan, cuda, metal};

TEST(Backend, TheMachineSaysWhatItIsMadeFor) {
  EXPECT_EQ(detect_backend({.macos = true, .arm64 = true}), metal);
  EXPECT_EQ(detect_backend({.macos = true, .cuda_driver = true}), cpu);
  EXPECT_EQ(detect_backend({.cuda_driver = true, .vulkan_driver = true}), cuda);
  EXPECT_EQ(detect_backend({.vulkan_driver = true}), vulkan);
  EXPECT_EQ(detect_backend({.arm64 = true}), cpu);
}

TEST(Backend, NamesAreReadAndWritten) {
  for (const Backend backend : kAll) EXPECT_EQ(parse_backend(backend_name(backend)), backend);
  EXPECT_FALSE(parse_backend("auto"));
  EXPECT_FALSE(parse_backend("CUDA"));
}

// Acceptance case 9.
TEST(Backend, ABuildThatCannotRunHereMovesCudaToVulkan) {
  const std::array out = {UnusableBackend{cuda, "illegal-instruction"}};
  const auto choice = choose_backend({}, cuda, kAll, out, "unusable.json");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->backend, vulkan);
  EXPECT_THAT(choice->reason, HasSubstr("cuda is disabled after it failed to start: illegal-instruction"));
}

TEST(Backend, AMissingBuildIsToldApartFromADisabledOne) {
  const std::array builds = {cpu};
  const auto choice = choose_backend({}, cuda, builds, {}, "unusable.json");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->backend, cpu);
  EXPECT_EQ(choice->reason, "cpu, because cuda has no build here; vulkan has no build here");
  EXPECT_EQ(choose_backend({}, metal, builds, {}, "")->backend, cpu);
}

// Acceptance case 12.
TEST(Backend, AWishIsFinalWhateverIsInQuarantine) {
  const std::array out = {UnusableBackend{vulkan, "three crashes"}};
  const auto choice = choose_backend(vulkan, cpu, kAll, out, "unusable.json");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->backend, vulkan);
}

TEST(Backend, WhenAllAreOutEachIsNamedWithItsReasonAndTheFile) {
  const std::array builds = {cpu, vulkan};
  const std::array out = {UnusableBackend{vulkan, "three crashes"}, UnusableBackend{cpu, "SIGILL"}};
  const auto choice = choose_backend({}, vulkan, builds, out, "/home/a/unusable.json");
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, "engine-unusable");
  for (const char* part : {"three crashes", "SIGILL", "/home/a/unusable.json"})
    EXPECT_THAT(choice.error().message, HasSubstr(part));
}

}  // namespace
}  // namespace gezel::engine
