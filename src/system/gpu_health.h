// system/gpu_health.h
//
// How warm GPUs are and whether they slow themselves down: from what the kernel's sensors say (AMD and
// others), and from what the drivers' tools print. What follows is engine/device_safety.h's to decide.
#pragma once
#include <array>
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

// What `amd-smi metric --json` prints: a list of GPUs, or {"gpu_data": [...]}, of which a number is
// {"value": 41, "unit": "C"}.
inline constexpr std::array kAmdHealthQuery = {"metric", "--json"};
std::vector<GpuHealth> parse_amd_smi(std::string_view text);

// What rocm-smi prints for these arguments: {"card0": {"Temperature (Sensor edge) (C)": "52.0", ...}}.
inline constexpr std::array kRocmHealthQuery = {"--showtemp", "--showuse",         "--showmeminfo", "vram",
                                                "--showbus",  "--showproductname", "--json"};
std::vector<GpuHealth> parse_rocm_smi(std::string_view text);

// The sensors of /sys/class/drm/card*/device/hwmon, and what amdgpu says of memory and use. `root` stands for
// "/" in tests.
std::vector<GpuHealth> read_sensor_health(const std::filesystem::path& root = "/");

}  // namespace gezel::system
