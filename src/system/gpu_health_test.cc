#include "system/gpu_health.h"

#include <gtest/gtest.h>

#include "system/test_tree.h"

namespace gezel::system {
namespace {

using namespace testing;  // TestTree of this module

TEST(GpuHealth, NvidiaLinesAreRead) {
  const auto gpus = parse_nvidia_health(
      "0, NVIDIA H200, 41, 46, 97, 1024, 143771, Not Active, Not Active, Not Active\n"
      "1, NVIDIA GeForce RTX 3060, 81, [N/A], [N/A], 5, 12288, Not Active, Active, Active\n");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].temperature_c, 41);
  EXPECT_EQ(gpus[0].margin_c, 46);
  EXPECT_EQ(gpus[0].utilization_percent, 97);
  EXPECT_EQ(gpus[0].memory_used, 1024 * kMiB);
  EXPECT_FALSE(gpus[0].thermal_slowdown || gpus[0].power_brake);
  EXPECT_EQ(gpus[1].margin_c, std::nullopt) << "unknown, never 0";
  EXPECT_TRUE(gpus[1].thermal_slowdown);
  EXPECT_TRUE(gpus[1].power_brake);
}

TEST(GpuHealth, WhatIsNoReadingIsAbsent) {
  EXPECT_TRUE(parse_nvidia_health("").empty());
  EXPECT_TRUE(parse_nvidia_health("NVIDIA-SMI has failed because it couldn't communicate\n").empty());
  EXPECT_TRUE(parse_nvidia_health("x, A, 1, 2, 3, 4, 5, Active, Active, Active\n").empty());
  const auto odd = parse_nvidia_health("0, A, nan, 1e9, 101, -1, 99999999999999999999, x, , \n");
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_FALSE(odd[0].temperature_c || odd[0].margin_c || odd[0].utilization_percent || odd[0].memory_used ||
               odd[0].memory_total);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "0, A, 1, 2, 3, 4, 5, x, x, x\n";
  EXPECT_EQ(parse_nvidia_health(many).size(), kMostGpus);
}

TEST(GpuHealth, SensorsGiveTheHottestPlaceAndTheLeastMargin) {
  TestTree tree;
  const std::string device = "sys/devices/pci0000:00/0000:03:00.0/";
  tree.file(device + "vendor", "0x1002\n").file(device + "hwmon/hwmon4/name", "amdgpu\n");
  tree.file(device + "hwmon/hwmon4/temp1_input", "45000\n")
      .file(device + "hwmon/hwmon4/temp1_crit", "100000\n");
  tree.file(device + "hwmon/hwmon4/temp2_input", "61500\n")
      .file(device + "hwmon/hwmon4/temp2_crit", "110000\n");
  tree.file(device + "mem_info_vram_total", "17163091968\n")
      .file(device + "mem_info_vram_used", "1048576\n")
      .file(device + "gpu_busy_percent", "7\n");
  tree.link("sys/class/drm/card0/device", "../../../devices/pci0000:00/0000:03:00.0");
  tree.file("sys/class/drm/card0-DP-1/device/hwmon/hwmon9/temp1_input", "99000\n");
  const auto gpus = read_sensor_health(tree.root());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].vendor, "amd");
  EXPECT_EQ(gpus[0].id, "0000:03:00.0");
  EXPECT_EQ(gpus[0].temperature_c, 61.5);
  EXPECT_EQ(gpus[0].margin_c, 48.5);
  EXPECT_EQ(gpus[0].memory_total, 17'163'091'968u);
  EXPECT_EQ(gpus[0].memory_used, kMiB);
  EXPECT_EQ(gpus[0].utilization_percent, 7);
  EXPECT_TRUE(read_sensor_health(TestTree().root()).empty());
}

}  // namespace
}  // namespace gezel::system
