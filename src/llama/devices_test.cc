#include "llama/devices.h"

#include <gtest/gtest.h>

namespace gezel::llama {
namespace {

TEST(Devices, TheProcessorIsNoneOfThem) {
  const auto list = device_list();
  EXPECT_TRUE(list.starts_with("Available devices:\n  ")) << list;
  EXPECT_EQ(list.find("CPU:"), list.npos) << list;
  EXPECT_TRUE(list.ends_with("\n"));
}

}  // namespace
}  // namespace gezel::llama
