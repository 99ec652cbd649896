// system/gpu_health.h
//
// How warm GPUs are and whether they slow themselves down: from what the kernel's sensors say (AMD and
// others), and from what nvidia-smi prints. What follows is engine/device_safety.h's to decide.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace gezel::system {

struct GpuHealth {
  std::string vendor;  // "nvidia", "amd", "intel"
  std::string id;      // "0", or the address of its bus
  std::string name;
  // Absent: not known, which is not 0.
  std::optional<double> temperature_c;  // the hottest sensor
  std::optional<double> margin_c;       // until it slows itself down
  std::optional<int> utilization_percent;
  std::optional<Bytes> memory_used, memory_total;
  bool thermal_slowdown = false, power_brake = false;  // in force now
};

inline constexpr std::size_t kMostGpus = 256;

// What these arguments make nvidia-smi print, one line a GPU. Lines that are no GPU are left out.
inline constexpr std::string_view kNvidiaHealthQuery =
    "--query-gpu=index,name,temperature.gpu,temperature.gpu.tlimit,utilization.gpu,memory.used,memory.total,"
    "clocks_event_reasons.hw_thermal_slowdown,clocks_event_reasons.sw_thermal_slowdown,"
    "clocks_event_reasons.hw_power_brake_slowdown";
inline constexpr std::string_view kNvidiaHealthFormat = "--format=csv,noheader,nounits";
std::vector<GpuHealth> parse_nvidia_health(std::string_view text);

// The sensors of /sys/class/drm/card*/device/hwmon. `root` stands for "/" in tests.
std::vector<GpuHealth> read_sensor_health(const std::filesystem::path& root = "/");

}  // namespace gezel::system
