// system/device_cache.h
//
// An engine's device list, kept between runs in <home>/engines/llama-cpp/devices.json: asking takes seconds
// (spec 20 section 2.3).
//
// Only the policy and the text: callers read and write the file and run the probe. What a cache says about
// free memory is stale and is never used as such.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "system/devices.h"
#include "system/gpu.h"

namespace gezel::system {

// The executable that was asked. Another build of it may see other devices.
struct ProbedBinary {
  std::string path;  // absolute
  Bytes size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const ProbedBinary&) const = default;
};

struct DeviceCache {
  std::vector<Device> devices;
  std::string probed_at;  // ISO 8601, UTC
  ProbedBinary binary;
  Bytes system_ram_bytes = 0;  // an integrated GPU's share moves with it
  std::string hardware;        // hardware_identity() of what was there
};

// The GPUs in one line, without what changes while they run: another card, or another driver, is another
// line.
std::string hardware_identity(const std::vector<GpuFacts>& gpus);

// Nothing when the text is not a cache.
std::optional<DeviceCache> parse_device_cache(std::string_view text);
// Nothing for an empty list: a failed probe is not remembered.
std::optional<std::string> device_cache_text(const DeviceCache& cache);

// The answer of a cache that still holds for this executable, this much memory and these GPUs.
std::optional<std::vector<Device>> cached_devices(std::string_view text, const ProbedBinary& binary,
                                                  Bytes total_ram, std::string_view hardware);

}  // namespace gezel::system
