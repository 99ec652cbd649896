#include "system/gpu_health.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "system/text_file.h"

namespace gezel::system {
namespace {

namespace fs = std::filesystem;

constexpr double kColdest = -100, kHottest = 300;  // a reading outside is none
constexpr std::uint64_t kMostMib = std::uint64_t{1} << 30;

// "[N/A]", "N/A", "[Not Supported]" and whatever else is no number are no reading.
std::optional<double> reading(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> degrees(std::string_view text) {
  const auto value = reading(text);
  return value && *value >= kColdest && *value <= kHottest ? value : std::nullopt;
}

std::optional<Bytes> mebibytes(std::string_view text) {
  const auto value = parse_unsigned(text);
  return value && *value <= kMostMib ? std::optional<Bytes>(*value * kMiB) : std::nullopt;
}

// A file with thousandths of degrees.
std::optional<double> sensor(const fs::path& file) {
  const auto text = read_text(file, 64);
  const auto value = text ? parse_integer(trim(*text)) : std::nullopt;
  if (!value) return std::nullopt;
  const double celsius = static_cast<double>(*value) / 1000;
  return celsius >= kColdest && celsius <= kHottest ? std::optional(celsius) : std::nullopt;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && out.size() < kMostGpus;
       it.increment(error))
    out.push_back(it->path());
  std::ranges::sort(out);
  return out;
}

// Takes the hottest sensor, and the least distance that one of them has to its critical point.
void add_sensors(const fs::path& monitor, GpuHealth& gpu) {
  constexpr int kMostSensors = 16;
  for (int number = 1; number <= kMostSensors; ++number) {
    const std::string name = "temp" + std::to_string(number);
    const auto now = sensor(monitor / (name + "_input"));
    if (!now) continue;
    gpu.temperature_c = std::max(*now, gpu.temperature_c.value_or(*now));
    const auto critical = sensor(monitor / (name + "_crit"));
    if (critical && *critical > 0)
      gpu.margin_c = std::min(*critical - *now, gpu.margin_c.value_or(*critical - *now));
  }
}

}  // namespace

std::vector<GpuHealth> parse_nvidia_health(std::string_view text) {
  enum { kIndex, kName, kTemperature, kMargin, kUse, kUsed, kTotal, kHwSlow, kSwSlow, kBrake, kFields };
  std::vector<GpuHealth> out;
  for (std::string_view line : lines(text)) {
    auto fields = split(line, ',');
    if (fields.size() != kFields || out.size() >= kMostGpus) continue;
    for (auto& field : fields) field = trim(field);
    if (!parse_unsigned(fields[kIndex])) continue;
    const auto active = [&](int field) { return fields[static_cast<std::size_t>(field)] == "Active"; };
    GpuHealth gpu{.vendor = "nvidia", .id = std::string(fields[kIndex]), .name = std::string(fields[kName])};
    gpu.temperature_c = degrees(fields[kTemperature]);
    gpu.margin_c = degrees(fields[kMargin]);
    if (const auto use = parse_unsigned(fields[kUse]); use && *use <= 100)
      gpu.utilization_percent = static_cast<int>(*use);
    gpu.memory_used = mebibytes(fields[kUsed]);
    gpu.memory_total = mebibytes(fields[kTotal]);
    gpu.thermal_slowdown = active(kHwSlow) || active(kSwSlow);
    gpu.power_brake = active(kBrake);
    out.push_back(std::move(gpu));
  }
  return out;
}

std::vector<GpuHealth> read_sensor_health(const fs::path& root) {
  std::map<std::string, GpuHealth> by_address;
  for (const fs::path& card : sorted_entries(under(root, "/sys/class/drm"))) {
    const std::string name = card.filename().string();
    if (!name.starts_with("card") || name.find('-') != name.npos) continue;  // not connectors
    GpuHealth gpu;
    for (const fs::path& monitor : sorted_entries(card / "device/hwmon")) {
      const auto driver = read_text(monitor / "name", 64);
      gpu.name = driver ? std::string(trim(*driver)) : std::string();
      add_sensors(monitor, gpu);
    }
    if (!gpu.temperature_c) continue;
    const auto number = [&](const char* file) {
      const auto text = read_text(card / "device" / file, 64);
      return text ? parse_unsigned(trim(*text)) : std::nullopt;
    };
    gpu.memory_total = number("mem_info_vram_total");
    gpu.memory_used = number("mem_info_vram_used");
    if (const auto use = number("gpu_busy_percent"); use && *use <= 100)
      gpu.utilization_percent = static_cast<int>(*use);
    const auto vendor = read_text(card / "device/vendor", 64);
    const std::string_view id = vendor ? trim(*vendor) : std::string_view();
    gpu.vendor = id == "0x1002" ? "amd" : id == "0x8086" ? "intel" : id == "0x10de" ? "nvidia" : "";
    std::error_code error;
    const fs::path device = fs::canonical(card / "device", error);
    gpu.id = error ? name : device.filename().string();
    by_address.emplace(gpu.id, std::move(gpu));
  }
  std::vector<GpuHealth> out;
  for (auto& [address, gpu] : by_address) out.push_back(std::move(gpu));
  return out;
}

}  // namespace gezel::system
