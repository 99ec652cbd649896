#include "system/gpu_libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/json.h"

namespace gezel::system {
namespace {

constexpr int kSuccess = 0;  // of both libraries
constexpr double kColdest = -100, kHottest = 300;
constexpr int kSchema = 1;

// The function with that signature, or null.
template <class Function>
Function* function(const FindFunction& find, const char* name) {
  return reinterpret_cast<Function*>(find(name));
}

// Calls it where it is there. True: it succeeded. The structs that it takes are the library's own; a
// sanitizer that compares types by name has only ours.
template <class Function, class... Arguments>
#if defined(__clang__)
[[clang::no_sanitize("function")]]
#endif
bool ask(Function* call, Arguments... arguments) {
  return call != nullptr && call(arguments...) == kSuccess;
}

// --- NVML. Handles are pointers, results are ints.

using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned gpu, memory;
};
struct NvmlMargin {
  unsigned version;  // the size and, in the top byte, 1
  int margin;
};
constexpr unsigned kNvmlMarginVersion = sizeof(NvmlMargin) | 1U << 24;
constexpr unsigned kNvmlGpuSensor = 0;
constexpr unsigned long long kNvmlSoftwareThermal = 0x20, kNvmlHardwareThermal = 0x40, kNvmlPowerBrake = 0x80;
constexpr unsigned kNvmlNameBytes = 96;

struct Nvml {
  explicit Nvml(const FindFunction& find)
      : init(function<int()>(find, "nvmlInit_v2")),
        shutdown(function<int()>(find, "nvmlShutdown")),
        count(function<int(unsigned*)>(find, "nvmlDeviceGetCount_v2")),
        handle(function<int(unsigned, NvmlDevice*)>(find, "nvmlDeviceGetHandleByIndex_v2")),
        name(function<int(NvmlDevice, char*, unsigned)>(find, "nvmlDeviceGetName")),
        temperature(function<int(NvmlDevice, unsigned, unsigned*)>(find, "nvmlDeviceGetTemperature")),
        margin(function<int(NvmlDevice, NvmlMargin*)>(find, "nvmlDeviceGetMarginTemperature")),
        utilization(function<int(NvmlDevice, NvmlUtilization*)>(find, "nvmlDeviceGetUtilizationRates")),
        memory(function<int(NvmlDevice, NvmlMemory*)>(find, "nvmlDeviceGetMemoryInfo")),
        reasons(
            function<int(NvmlDevice, unsigned long long*)>(find, "nvmlDeviceGetCurrentClocksEventReasons")) {
    if (reasons == nullptr)  // its name before driver 535
      reasons =
          function<int(NvmlDevice, unsigned long long*)>(find, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  int (*init)();
  int (*shutdown)();
  int (*count)(unsigned*);
  int (*handle)(unsigned, NvmlDevice*);
  int (*name)(NvmlDevice, char*, unsigned);
  int (*temperature)(NvmlDevice, unsigned, unsigned*);
  int (*margin)(NvmlDevice, NvmlMargin*);
  int (*utilization)(NvmlDevice, NvmlUtilization*);
  int (*memory)(NvmlDevice, NvmlMemory*);
  int (*reasons)(NvmlDevice, unsigned long long*);
};

// Up to the first zero, whatever stands behind it.
template <std::size_t Size>
std::string text_in(const std::array<char, Size>& buffer) {
  return {buffer.begin(), std::ranges::find(buffer, '\0')};
}

std::optional<double> degrees(double celsius) {
  return celsius >= kColdest && celsius <= kHottest ? std::optional(celsius) : std::nullopt;
}

GpuHealth nvml_device(const Nvml& nvml, NvmlDevice device, unsigned index) {
  GpuHealth out{.vendor = "nvidia", .id = std::to_string(index)};
  std::array<char, kNvmlNameBytes> name{};
  if (ask(nvml.name, device, name.data(), kNvmlNameBytes)) out.name = text_in(name);
  if (unsigned celsius = 0; ask(nvml.temperature, device, kNvmlGpuSensor, &celsius))
    out.temperature_c = degrees(celsius);
  if (NvmlMargin margin{kNvmlMarginVersion, 0}; ask(nvml.margin, device, &margin))
    out.margin_c = degrees(margin.margin);
  if (NvmlUtilization use{}; ask(nvml.utilization, device, &use) && use.gpu <= 100)
    out.utilization_percent = static_cast<int>(use.gpu);
  if (NvmlMemory memory{}; ask(nvml.memory, device, &memory)) {
    out.memory_total = memory.total;
    out.memory_used = memory.used;
  }
  if (unsigned long long reasons = 0; ask(nvml.reasons, device, &reasons)) {
    out.thermal_slowdown = (reasons & (kNvmlSoftwareThermal | kNvmlHardwareThermal)) != 0;
    out.power_brake = (reasons & kNvmlPowerBrake) != 0;
  }
  return out;
}

// --- ROCm SMI. GPUs are numbers, temperatures thousandths of degrees.

constexpr std::array<std::uint32_t, 3> kRocmSensors{0, 1, 2};  // edge, junction, memory
constexpr std::uint32_t kRocmCurrent = 0, kRocmCritical = 5, kRocmVram = 0;
constexpr std::size_t kRocmNameBytes = 128;

struct RocmSmi {
  explicit RocmSmi(const FindFunction& find)
      : init(function<int(std::uint64_t)>(find, "rsmi_init")),
        shutdown(function<int()>(find, "rsmi_shut_down")),
        count(function<int(std::uint32_t*)>(find, "rsmi_num_monitor_devices")),
        name(function<int(std::uint32_t, char*, std::size_t)>(find, "rsmi_dev_name_get")),
        bus(function<int(std::uint32_t, std::uint64_t*)>(find, "rsmi_dev_pci_id_get")),
        temperature(function<int(std::uint32_t, std::uint32_t, std::uint32_t, std::int64_t*)>(
            find, "rsmi_dev_temp_metric_get")),
        busy(function<int(std::uint32_t, std::uint32_t*)>(find, "rsmi_dev_busy_percent_get")),
        memory_total(
            function<int(std::uint32_t, std::uint32_t, std::uint64_t*)>(find, "rsmi_dev_memory_total_get")),
        memory_used(
            function<int(std::uint32_t, std::uint32_t, std::uint64_t*)>(find, "rsmi_dev_memory_usage_get")) {}
  int (*init)(std::uint64_t);
  int (*shutdown)();
  int (*count)(std::uint32_t*);
  int (*name)(std::uint32_t, char*, std::size_t);
  int (*bus)(std::uint32_t, std::uint64_t*);
  int (*temperature)(std::uint32_t, std::uint32_t, std::uint32_t, std::int64_t*);
  int (*busy)(std::uint32_t, std::uint32_t*);
  int (*memory_total)(std::uint32_t, std::uint32_t, std::uint64_t*);
  int (*memory_used)(std::uint32_t, std::uint32_t, std::uint64_t*);
};

// "0000:03:00.0", as everywhere else: domain in the upper half, then bus, device and function.
std::string bus_address(std::uint64_t id) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", id >> 32, id >> 8 & 0xff, id >> 3 & 0x1f, id & 7);
}

GpuHealth rocm_device(const RocmSmi& rocm, std::uint32_t index) {
  GpuHealth out{.vendor = "amd", .id = std::to_string(index)};
  if (std::uint64_t id = 0; ask(rocm.bus, index, &id)) out.id = bus_address(id);
  std::array<char, kRocmNameBytes> name{};
  if (ask(rocm.name, index, name.data(), name.size())) out.name = text_in(name);
  for (const auto sensor : kRocmSensors) {
    std::int64_t now = 0, critical = 0;
    if (!ask(rocm.temperature, index, sensor, kRocmCurrent, &now)) continue;
    const auto celsius = degrees(static_cast<double>(now) / 1000);
    if (!celsius) continue;
    out.temperature_c = std::max(*celsius, out.temperature_c.value_or(*celsius));
    if (!ask(rocm.temperature, index, sensor, kRocmCritical, &critical) || critical <= 0) continue;
    const double margin = static_cast<double>(critical - now) / 1000;
    if (degrees(margin)) out.margin_c = std::min(margin, out.margin_c.value_or(margin));
  }
  if (std::uint32_t percent = 0; ask(rocm.busy, index, &percent) && percent <= 100)
    out.utilization_percent = static_cast<int>(percent);
  if (std::uint64_t bytes = 0; ask(rocm.memory_total, index, kRocmVram, &bytes)) out.memory_total = bytes;
  if (std::uint64_t bytes = 0; ask(rocm.memory_used, index, kRocmVram, &bytes)) out.memory_used = bytes;
  return out;
}

// --- the sample as text

template <class T>
void put(json::object& out, const char* name, const std::optional<T>& value) {
  if (value) out[name] = *value;
}

std::optional<double> number_in(const json::object& object, const char* name, double low, double high) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const auto number = value->to_number<double>();
  return std::isfinite(number) && number >= low && number <= high ? std::optional(number) : std::nullopt;
}

std::optional<Bytes> bytes_in(const json::object& object, const char* name) {
  constexpr double kMost = 1ULL << 50;
  const auto number = number_in(object, name, 0, kMost);
  return number ? std::optional(static_cast<Bytes>(*number)) : std::nullopt;
}

}  // namespace

std::vector<GpuHealth> read_nvml(const FindFunction& find) {
  const Nvml nvml(find);
  if (nvml.count == nullptr || nvml.handle == nullptr || !ask(nvml.init)) return {};
  std::vector<GpuHealth> out;
  unsigned count = 0;
  if (ask(nvml.count, &count)) {
    for (unsigned i = 0; i < count && out.size() < kMostGpus; ++i)
      if (NvmlDevice device = nullptr; ask(nvml.handle, i, &device))
        out.push_back(nvml_device(nvml, device, i));
  }
  ask(nvml.shutdown);
  return out;
}

std::vector<GpuHealth> read_rocm_smi(const FindFunction& find) {
  const RocmSmi rocm(find);
  if (rocm.count == nullptr || !ask(rocm.init, std::uint64_t{0})) return {};
  std::vector<GpuHealth> out;
  std::uint32_t count = 0;
  if (ask(rocm.count, &count)) {
    for (std::uint32_t i = 0; i < count && out.size() < kMostGpus; ++i) out.push_back(rocm_device(rocm, i));
  }
  ask(rocm.shutdown);
  return out;
}

std::string gpu_sample_text(const std::vector<GpuHealth>& gpus) {
  json::array devices;
  for (const auto& gpu : gpus) {
    json::object device{{"vendor", gpu.vendor}, {"id", gpu.id}, {"name", gpu.name}};
    put(device, "temperatureC", gpu.temperature_c);
    put(device, "marginC", gpu.margin_c);
    put(device, "utilizationPercent", gpu.utilization_percent);
    put(device, "memoryUsedBytes", gpu.memory_used);
    put(device, "memoryTotalBytes", gpu.memory_total);
    device["thermalSlowdown"] = gpu.thermal_slowdown;
    device["powerBrake"] = gpu.power_brake;
    devices.push_back(std::move(device));
  }
  return to_json(json::object{{"schemaVersion", kSchema}, {"devices", std::move(devices)}}) + "\n";
}

std::vector<GpuHealth> parse_gpu_sample(std::string_view text) {
  constexpr std::array<std::string_view, 4> kVendors{"nvidia", "amd", "apple", "generic"};
  const auto begin = text.find('{');  // a driver may have said something before
  if (begin == text.npos) return {};
  text = text.substr(begin, text.rfind('}') + 1 - begin);
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object() || int_or(parsed->get_object(), "schemaVersion", 0) != kSchema)
    return {};
  const auto* devices = array_at(parsed->get_object(), "devices");
  std::vector<GpuHealth> out;
  for (const auto& value : devices != nullptr ? *devices : json::array()) {
    if (!value.is_object() || out.size() >= kMostGpus) continue;
    const auto& device = value.get_object();
    GpuHealth gpu{.vendor = string_or(device, "vendor"),
                  .id = string_or(device, "id"),
                  .name = string_or(device, "name"),
                  .temperature_c = number_in(device, "temperatureC", kColdest, kHottest),
                  .margin_c = number_in(device, "marginC", kColdest, kHottest),
                  .memory_used = bytes_in(device, "memoryUsedBytes"),
                  .memory_total = bytes_in(device, "memoryTotalBytes"),
                  .thermal_slowdown = bool_or(device, "thermalSlowdown", false),
                  .power_brake = bool_or(device, "powerBrake", false)};
    if (const auto percent = number_in(device, "utilizationPercent", 0, 100))
      gpu.utilization_percent = static_cast<int>(*percent);
    if (gpu.id.empty()) gpu.id = std::to_string(out.size());
    if (std::ranges::find(kVendors, gpu.vendor) != kVendors.end()) out.push_back(std::move(gpu));
  }
  return out;
}

}  // namespace gezel::system
