// system/devices.h
//
// GPUs as the tools that can use them report them: what nvidia-smi and an engine's --list-devices print, and
// what kind of memory a device has by its name (spec 20 section 2). Pure: callers run the tools.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace gezel::system {

// --- nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits (2 s at most)

struct NvidiaMemory {
  Bytes vram_bytes = 0;  // of all devices
  bool unified = false;  // every one of them is a part that shares main memory
  int devices = 0;
};
// Nothing when no line is valid: there is no usable card of this vendor.
std::optional<NvidiaMemory> parse_nvidia_memory(std::string_view text);

// For diagnostics only. --query-gpu=index,name,compute_cap,driver_version
struct NvidiaCard {
  std::string index, name, compute_capability, driver;
};
std::vector<NvidiaCard> parse_nvidia_cards(std::string_view text);
// The card behind an engine's device: by the number of "CUDA<n>", else by name, else the first; null: none.
const NvidiaCard* match_card(const std::vector<NvidiaCard>& cards, std::string_view device_id,
                             std::string_view device_name);

// --- an engine's own list (20 s at most)

// What the ggml device interface says, where it can be asked.
enum class DeviceType { unknown, gpu, integrated_gpu };

struct Device {
  std::string id;  // "Vulkan0"
  std::string name;
  std::uint64_t total_mib = 0, free_mib = 0;  // 0 in total: a pseudo-device, never a GPU
  DeviceType type = DeviceType::unknown;
};
// "  Vulkan0: AMD Radeon RX 7900 GRE (RADV NAVI31) (16368 MiB, 15900 MiB free)"; every other line is ignored.
std::vector<Device> parse_device_list(std::string_view text);

// --- what kind it is

enum class DeviceKind { discrete, integrated, unified, unknown };
DeviceKind classify_device_name(std::string_view name);
// By the device's type where it is known, else by name; a known unified part stays unified.
DeviceKind device_kind(const Device& device);
// "nvidia", "amd", "intel", or "": a brand is never guessed.
std::string_view device_vendor(std::string_view name);

// The largest discrete device, else the largest; null without any. An integrated adapter's share of main
// memory must not hide a smaller real card.
const Device* best_device(const std::vector<Device>& devices);
Bytes largest_vram_bytes(const std::vector<Device>& devices);  // of one device

}  // namespace gezel::system
