// AMD's tools change their layout between releases: what is a number here is an object with a unit there, or
// a text, and warnings stand in front. Whatever is none of them is no reading.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json.h"
#include "system/gpu_health.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

constexpr double kColdest = -100, kHottest = 300, kMostMib = 1 << 30;

// The first line that begins a JSON value, to the last that ends one.
std::optional<json::value> json_in(std::string_view text) {
  for (std::string_view line : lines(text)) {
    if (!line.starts_with('{') && !line.starts_with('[')) continue;
    const auto begin = static_cast<std::size_t>(line.data() - text.data());
    const auto end = text.find_last_of("}]");
    if (end == text.npos || end < begin) return std::nullopt;
    auto parsed = parse_json(text.substr(begin, end - begin + 1));
    if (parsed) return std::move(*parsed);
  }
  return std::nullopt;
}

// 41, "41.0", "41 C", {"value": 41, "unit": "C"}; "N/A" and the like are none.
std::optional<double> reading(const json::value* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto* object = value->if_object()) {
    const auto* inner = object->if_contains("value");
    return inner != nullptr && !inner->is_object() ? reading(inner) : std::nullopt;
  }
  double out = 0;
  if (value->is_number()) {
    out = value->to_number<double>();
  } else if (const auto* text = value->if_string()) {
    const auto [at, error] = std::from_chars(text->data(), text->data() + text->size(), out);
    if (error != std::errc()) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return std::isfinite(out) ? std::optional(out) : std::nullopt;
}
std::optional<double> reading(const json::object* object, std::string_view key) {
  return object == nullptr ? std::nullopt : reading(object->if_contains(key));
}

void take_temperature(GpuHealth& gpu, std::optional<double> celsius) {
  if (celsius && *celsius >= kColdest && *celsius <= kHottest)
    gpu.temperature_c = std::max(*celsius, gpu.temperature_c.value_or(*celsius));
}
void take_use(GpuHealth& gpu, std::optional<double> percent) {
  if (percent && *percent >= 0 && *percent <= 100) gpu.utilization_percent = static_cast<int>(*percent);
}
std::optional<Bytes> bytes_of(std::optional<double> count, Bytes unit) {
  const double most = kMostMib * static_cast<double>(kMiB) / static_cast<double>(unit);
  if (!count || *count < 0 || *count > most) return std::nullopt;
  return static_cast<Bytes>(*count) * unit;
}

// Violations by name: one that speaks of heat, or the processor's own signal. A limit of power is part of
// normal work, and so is the plain "THROTTLED" of the power section.
bool slowed_by_heat(const json::object* throttle) {
  if (throttle == nullptr) return false;
  return std::ranges::any_of(*throttle, [](const auto& entry) {
    const std::string_view name = entry.key();
    const auto* text = entry.value().if_string();
    return name.ends_with("_violation_status") && (name.contains("thermal") || name.contains("prochot")) &&
           text != nullptr && *text == "ACTIVE";
  });
}

std::string text_at(const json::object& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (auto text = string_or(object, key); !text.empty() && text != "N/A") return text;
  return {};
}

}  // namespace

std::vector<GpuHealth> parse_amd_smi(std::string_view text) {
  const auto root = json_in(text);
  if (!root) return {};
  const json::array* list = root->if_array();
  if (list == nullptr && root->is_object()) list = array_at(root->get_object(), "gpu_data");
  std::vector<GpuHealth> out;
  for (const auto& value : list ? *list : json::array()) {
    const auto* entry = value.if_object();
    const auto number = entry ? int_or(*entry, "gpu", -1) : -1;
    if (number < 0 || out.size() >= kMostGpus) continue;
    GpuHealth gpu{.vendor = "amd", .id = std::to_string(number)};
    for (const char* sensor : {"edge", "hotspot", "mem"})
      take_temperature(gpu, reading(object_at(*entry, "temperature"), sensor));
    take_use(gpu, reading(object_at(*entry, "usage"), "gfx_activity"));
    const auto* memory = object_at(*entry, "mem_usage");
    gpu.memory_total = bytes_of(reading(memory, "total_vram"), kMiB);
    gpu.memory_used = bytes_of(reading(memory, "used_vram"), kMiB);
    gpu.thermal_slowdown = slowed_by_heat(object_at(*entry, "throttle"));
    out.push_back(std::move(gpu));
  }
  return out;
}

std::vector<GpuHealth> parse_rocm_smi(std::string_view text) {
  const auto root = json_in(text);
  if (!root || !root->is_object()) return {};
  std::vector<GpuHealth> out;
  for (const auto& [key, value] : root->get_object()) {
    const std::string_view name = key;
    const auto* card = value.if_object();
    if (card == nullptr || !name.starts_with("card") || !parse_unsigned(name.substr(4))) continue;
    if (out.size() >= kMostGpus) break;
    GpuHealth gpu{.vendor = "amd", .id = text_at(*card, {"PCI Bus"})};
    if (gpu.id.empty()) gpu.id = std::string(name.substr(4));
    gpu.name = text_at(*card, {"Card Series", "Card series", "Card Model", "Card model"});
    for (const char* sensor : {"edge", "junction", "memory"})
      take_temperature(gpu, reading(card, "Temperature (Sensor " + std::string(sensor) + ") (C)"));
    take_use(gpu, reading(card, "GPU use (%)"));
    gpu.memory_total = bytes_of(reading(card, "VRAM Total Memory (B)"), 1);
    gpu.memory_used = bytes_of(reading(card, "VRAM Total Used Memory (B)"), 1);
    out.push_back(std::move(gpu));
  }
  return out;
}

}  // namespace gezel::system
