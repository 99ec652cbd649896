#include "capacity/memory_sample.h"

#include <map>

#include "capacity/arithmetic.h"

namespace gezel::capacity {

MemorySample main_memory_sample(const MemorySampleInput& input) {
  MemorySample out{.total = input.total};
  out.used = minus(input.total, plus(input.free, input.cached));
  Bytes reserved = 0, weights = 0;
  std::map<std::string, ModelRow> rows;
  for (const EngineShare& engine : input.engines) {
    reserved = plus(reserved, engine.reserved);
    weights = plus(weights, std::min(engine.weights, engine.reserved));
    ModelRow& row = rows[engine.model];
    row.model = engine.model;
    row.bytes = plus(row.bytes, engine.reserved);
    ++row.replicas;
  }
  out.measured = input.observed.has_value();
  out.ours = std::min(input.observed.value_or(plus(reserved, input.daemon)), out.used);
  // The daemon's own part comes first; what weights and caches are said to be is cut to what is left.
  const Bytes engines = minus(out.ours, input.daemon);
  out.weights = std::min(weights, engines);
  out.cache = std::min(minus(reserved, weights), engines - out.weights);
  out.infrastructure = out.ours - out.weights - out.cache;
  for (auto& [model, row] : rows) out.models.push_back(std::move(row));
  std::ranges::sort(out.models, [](const ModelRow& a, const ModelRow& b) {
    return std::pair(b.bytes, a.model) < std::pair(a.bytes, b.model);
  });
  return out;
}

std::optional<DeviceSample> device_sample(const std::vector<DeviceMemory>& devices,
                                          std::optional<Bytes> ours) {
  DeviceSample out{.ours = ours};
  for (const DeviceMemory& device : devices) {
    if (!device.total || !device.used) return std::nullopt;
    out.total = plus(out.total, *device.total);
    out.used = plus(out.used, *device.used);
  }
  if (devices.empty()) return std::nullopt;
  if (out.ours) out.ours = std::min(*out.ours, out.used);
  return out;
}

}  // namespace gezel::capacity
