#include "system/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "system/device_cache.h"

namespace gezel::system {
namespace {

using ::testing::IsEmpty;

// --- nvidia-smi

TEST(Devices, Case12_NvidiaCardsAreSummedAndUnifiedOnlyWhenAllAre) {
  const auto two = parse_nvidia_memory("NVIDIA A10, 23028\nNVIDIA A10, 23028\n");
  ASSERT_TRUE(two);
  EXPECT_EQ(two->vram_bytes, 48'293'216'256u);
  EXPECT_FALSE(two->unified);
  EXPECT_FALSE(parse_nvidia_memory("NVIDIA GB10, 122880\nNVIDIA RTX A2000, 12288\n")->unified);
  EXPECT_TRUE(parse_nvidia_memory("NVIDIA GB10, 122880\n")->unified);
}

TEST(Devices, ALineOfNvidiasToolIsSplitAtTheLastComma) {
  EXPECT_EQ(parse_nvidia_memory("Card, with comma, 1024\r\n")->vram_bytes, kGiB);
  for (const char* text : {"", "NVIDIA A10, [N/A]\n", ", 1024\n", "NVIDIA A10, 0\n", "NVIDIA A10, -5\n",
                           "NVIDIA A10 1024\n", "NVIDIA A10, 12.5\n"})
    EXPECT_FALSE(parse_nvidia_memory(text)) << text;
  EXPECT_EQ(parse_nvidia_memory("bad\nNVIDIA A10, 1024\n")->devices, 1);
}

TEST(Devices, OnlyWholeWordsMakeAPartUnified) {
  EXPECT_FALSE(parse_nvidia_memory("NVIDIA GB100, 1024\n")->unified);
  EXPECT_TRUE(parse_nvidia_memory("NVIDIA DGX Spark (x), 1024\n")->unified);
}

TEST(Devices, CardsAreMatchedByNumberThenNameThenOrder) {
  const auto cards = parse_nvidia_cards("0, A, 8.0, 550.1\n1, B, 9.0, 550.1\n2, broken\n");
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(match_card(cards, "CUDA1", "A")->name, "B");
  EXPECT_EQ(match_card(cards, "Vulkan0", "B")->compute_capability, "9.0");
  EXPECT_EQ(match_card(cards, "Vulkan0", "C")->name, "A");
  EXPECT_EQ(match_card({}, "CUDA0", "A"), nullptr);
}

// --- an engine's list

TEST(Devices, Case8_ANameKeepsItsParentheses) {
  const auto devices =
      parse_device_list("  Vulkan0: AMD Radeon RX 7900 GRE (RADV NAVI31) (16368 MiB, 15900 MiB free)\r\n");
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].id, "Vulkan0");
  EXPECT_EQ(devices[0].name, "AMD Radeon RX 7900 GRE (RADV NAVI31)");
  EXPECT_EQ(largest_vram_bytes(devices), 17'163'091'968u);
  EXPECT_EQ(devices[0].free_mib, 15'900u);
  EXPECT_EQ(device_kind(devices[0]), DeviceKind::discrete);
  EXPECT_EQ(device_vendor(devices[0].name), "amd");
}

TEST(Devices, Case9_AnEmptyAnswerIsNoDeviceAndNotRemembered) {
  EXPECT_THAT(parse_device_list("Available devices:\n  (none)\n"), IsEmpty());
  EXPECT_THAT(parse_device_list(""), IsEmpty());  // what a probe that hung leaves
  EXPECT_EQ(device_cache_text({}), std::nullopt);
}

TEST(Devices, EverythingElseIsIgnored) {
  const auto devices = parse_device_list(
      "ggml_vulkan: Found 1 device\nload: ready (3 MiB, x MiB free)\n: nameless (1 MiB, 1 MiB free)\n"
      "two words: X (1 MiB, 1 MiB free)\nCUDA0: (1 MiB, 1 MiB free)\nCUDA0: X (1 MiB, 1 MiB free) more\n"
      "CUDA0: X (-1 MiB, 1 MiB free)\nBLAS: OpenBLAS (0 MiB, 0 MiB free)\n\tMetal:Apple M3 (10 MiB, 9 MiB "
      "free)  \n");
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].id, "BLAS");
  EXPECT_EQ(devices[1].name, "Apple M3");
  EXPECT_EQ(best_device(devices)->id, "Metal");
}

// --- kinds

TEST(Devices, Case10_NamesTellCardsFromPartsOfAProcessor) {
  EXPECT_EQ(classify_device_name("Intel(R) Arc(TM) B570 Graphics"), DeviceKind::discrete);
  EXPECT_EQ(classify_device_name("Intel(R) Arc(TM) Graphics"), DeviceKind::integrated);
  EXPECT_EQ(classify_device_name("AMD Radeon 890M Graphics"), DeviceKind::integrated);
  EXPECT_EQ(classify_device_name("AMD Instinct MI210"), DeviceKind::discrete);
  EXPECT_EQ(classify_device_name("Apple M3"), DeviceKind::unknown);
}

TEST(Devices, EveryRuleOfTheTableHolds) {
  const std::pair<const char*, DeviceKind> rows[] = {
      {"Qualcomm(R) Adreno(TM) X1-85 GPU", DeviceKind::integrated},
      {"Intel(R) Arc(TM) Pro A60", DeviceKind::discrete},
      {"Intel(R) Arc(TM) A770 Graphics", DeviceKind::discrete},
      {"Intel(R) Iris(R) Xe Graphics", DeviceKind::integrated},
      {"Intel Architecture A770", DeviceKind::integrated},
      {"AMD Radeon RX 7600", DeviceKind::discrete},
      {"AMD Radeon VII", DeviceKind::discrete},
      {"AMD Radeon Pro W7900", DeviceKind::discrete},
      {"AMD Radeon AI PRO R9700", DeviceKind::discrete},
      {"AMD FirePro W9100", DeviceKind::discrete},
      {"AMD Radeon RX Vega 56", DeviceKind::integrated},
      {"AMD Radeon Graphics (RADV RENOIR)", DeviceKind::integrated},
      {"AMD Radeon 8060S Graphics", DeviceKind::integrated},
      {"AMD Something", DeviceKind::unknown},
      {"NVIDIA GeForce RTX 4090", DeviceKind::discrete},
      {"Quadro P2000", DeviceKind::discrete},
  };
  for (const auto& [name, kind] : rows) EXPECT_EQ(classify_device_name(name), kind) << name;
}

TEST(Devices, TheEnginesOwnTypeOverridesTheName) {
  EXPECT_EQ(device_kind({.name = "AMD Radeon Graphics", .type = DeviceType::gpu}), DeviceKind::discrete);
  EXPECT_EQ(device_kind({.name = "NVIDIA GeForce", .type = DeviceType::integrated_gpu}),
            DeviceKind::integrated);
  EXPECT_EQ(device_kind({.name = "NVIDIA GB10", .type = DeviceType::gpu}), DeviceKind::unified);
}

TEST(Devices, Case11_ASharedHeapDoesNotHideASmallerCard) {
  const std::vector<Device> devices = {{.id = "a", .name = "Intel Graphics", .total_mib = 18'000},
                                       {.id = "b", .name = "AMD Radeon RX 7600", .total_mib = 8'176}};
  EXPECT_EQ(best_device(devices)->name, "AMD Radeon RX 7600");
  EXPECT_EQ(best_device({{.name = "X", .total_mib = 0}}), nullptr);
  EXPECT_EQ(best_device({}), nullptr);
}

TEST(Devices, ABrandIsNeverGuessed) {
  EXPECT_EQ(device_vendor("GeForce GTX"), "nvidia");
  EXPECT_EQ(device_vendor("RTX 6000"), "nvidia");
  EXPECT_EQ(device_vendor("Arc B580"), "intel");
  EXPECT_EQ(device_vendor("Apple M3"), "");
}

}  // namespace
}  // namespace gezel::system
