#include "system/device_cache.h"

#include "base/json.h"

namespace gezel::system {
namespace {

constexpr std::size_t kMostDevices = 1024;

std::uint64_t unsigned_at(const json::object& object, std::string_view key) {
  const std::int64_t value = int_or(object, key, 0);
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

}  // namespace

std::string hardware_identity(const std::vector<GpuFacts>& gpus) {
  std::string out;
  for (const GpuFacts& gpu : gpus)
    out += gpu.address + " " + gpu.vendor + " " + gpu.name + " " + gpu.driver + ";";
  return out;
}

std::optional<DeviceCache> parse_device_cache(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const json::object& root = parsed->as_object();
  const json::array* devices = array_at(root, "devices");
  const json::object* binary = object_at(root, "binary");
  if (!devices || !binary || devices->size() > kMostDevices) return std::nullopt;
  DeviceCache out{
      .probed_at = string_or(root, "probedAt"),
      .binary = {string_or(*binary, "path"), unsigned_at(*binary, "size"), int_or(*binary, "mtimeNs", 0)},
      .system_ram_bytes = unsigned_at(root, "systemRamBytes"),
      .hardware = string_or(root, "hardware")};
  for (const json::value& value : *devices) {
    const json::object* device = value.if_object();
    if (!device) return std::nullopt;
    out.devices.push_back({.id = string_or(*device, "id"),
                           .name = string_or(*device, "name"),
                           .total_mib = unsigned_at(*device, "totalMiB"),
                           .free_mib = unsigned_at(*device, "freeMiB")});
  }
  return out;
}

std::optional<std::string> device_cache_text(const DeviceCache& cache) {
  if (cache.devices.empty()) return std::nullopt;
  json::array devices;
  for (const Device& device : cache.devices) {
    devices.push_back({{"id", device.id},
                       {"name", device.name},
                       {"totalMiB", device.total_mib},
                       {"freeMiB", device.free_mib}});
  }
  const json::value root = {
      {"devices", std::move(devices)},
      {"probedAt", cache.probed_at},
      {"binary",
       {{"path", cache.binary.path}, {"size", cache.binary.size}, {"mtimeNs", cache.binary.mtime_ns}}},
      {"systemRamBytes", cache.system_ram_bytes},
      {"hardware", cache.hardware}};
  return to_json(root) + "\n";
}

std::optional<std::vector<Device>> cached_devices(std::string_view text, const ProbedBinary& binary,
                                                  Bytes total_ram, std::string_view hardware) {
  auto cache = parse_device_cache(text);
  if (!cache || cache->devices.empty() || cache->binary != binary || cache->system_ram_bytes != total_ram ||
      cache->hardware != hardware)
    return std::nullopt;
  return std::move(cache->devices);
}

}  // namespace gezel::system
