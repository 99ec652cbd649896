// system/gpu.h
//
// GPUs that are present, found without any driver or vendor library: from /sys and the device files alone.
// What an engine can really use is the engine's own answer; this tells `gezel doctor` what hardware is there
// and what it lacks.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace gezel::system {

struct GpuFacts {
  std::string vendor;               // "nvidia", "amd", "intel", "apple", "qualcomm", "arm"
  std::string name;                 // as the driver's files say, else "<vendor> <device id>"
  std::string address;              // "0000:01:00.0", or the name of a platform device
  std::string driver;               // kernel driver; "" = none is bound
  std::optional<Bytes> vram_bytes;  // where a file tells it (amdgpu)
  bool device_file = false;         // a file through which a program can use it is there
};

// Which libraries of GPU drivers are where this machine's loader looks: libcuda.so.1, libvulkan.so.1. None is
// loaded for the question, because a driver's library starts threads, opens devices and takes its time.
struct DriverLibraries {
  bool cuda = false, vulkan = false;
  bool operator==(const DriverLibraries&) const = default;
};
DriverLibraries find_driver_libraries(const std::filesystem::path& root = "/");

// Sorted by address. `root` stands for "/" in tests.
std::vector<GpuFacts> find_gpus(const std::filesystem::path& root = "/");

}  // namespace gezel::system
