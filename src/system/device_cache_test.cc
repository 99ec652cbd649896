#include "system/device_cache.h"

#include <gtest/gtest.h>

namespace gezel::system {
namespace {

DeviceCache cache() {
  return {.devices = {{.id = "CUDA0", .name = "NVIDIA A10", .total_mib = 23'028, .free_mib = 22'000}},
          .probed_at = "2026-11-30T12:00:00.000Z",
          .binary = {"/opt/llama-server", 1'000, 1'700'000'000'000'000'001},
          .system_ram_bytes = 32 * kGiB,
          .hardware = "0000:01:00.0 nvidia NVIDIA A10 nvidia;"};
}

TEST(DeviceCache, Case13_ACacheHoldsForItsBinaryAndItsMemory) {
  const std::string text = *device_cache_text(cache());
  const std::string cards = cache().hardware;
  const auto hit = cached_devices(text, cache().binary, 32 * kGiB, cards);
  ASSERT_TRUE(hit);
  EXPECT_EQ(hit->front().name, "NVIDIA A10");
  EXPECT_EQ(hit->front().total_mib, 23'028u);
  ProbedBinary replaced = cache().binary;
  ++replaced.mtime_ns;
  EXPECT_FALSE(cached_devices(text, replaced, 32 * kGiB, cards));
  EXPECT_FALSE(cached_devices(text, cache().binary, 64 * kGiB, cards));
}

TEST(DeviceCache, AnotherCardOrDriverIsAskedAnew) {
  const std::string text = *device_cache_text(cache());
  GpuFacts card{.vendor = "nvidia", .name = "NVIDIA A10", .address = "0000:01:00.0", .driver = "nvidia"};
  EXPECT_TRUE(cached_devices(text, cache().binary, 32 * kGiB, hardware_identity({card})));
  card.driver = "nouveau";
  EXPECT_FALSE(cached_devices(text, cache().binary, 32 * kGiB, hardware_identity({card})));
  EXPECT_FALSE(cached_devices(text, cache().binary, 32 * kGiB, hardware_identity({})));
}

TEST(DeviceCache, DamagedTextIsNoCache) {
  const std::string text = *device_cache_text(cache());
  for (std::size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_FALSE(parse_device_cache(text.substr(0, size))) << size;
  for (const char* bad :
       {"[]", "{}", R"({"devices": {}, "binary": {}})", R"({"devices": [1], "binary": {}})"})
    EXPECT_FALSE(parse_device_cache(bad)) << bad;
}

}  // namespace
}  // namespace gezel::system
