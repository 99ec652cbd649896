// system/gpu.h
//
// GPUs that are present, found without any driver or vendor library: from /sys and the device files alone.
// What an engine can really use is the engine's own answer; this tells `gezel doctor` what hardware is there
// and what it lacks.
#pragma once
#include <filesystem>
#include <functional>
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

// Which libraries of GPU drivers a program of this machine could load. They are loaded for the question and
// let go at once; nothing in them is called.
struct DriverLibraries {
  bool cuda = false, vulkan = false;
};
bool can_load_library(const char* name);
DriverLibraries find_driver_libraries(const std::function<bool(const char*)>& can_load = can_load_library);

// Sorted by address. `root` stands for "/" in tests.
std::vector<GpuFacts> find_gpus(const std::filesystem::path& root = "/");

}  // namespace gezel::system
