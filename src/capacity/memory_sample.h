// capacity/memory_sample.h
//
// What memory is used for at this moment, for status pages (spec 20 section 12.6). Pure:
// callers bring readings.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "capacity/evict.h"

namespace gezel::capacity {

// A loaded engine in the sample.
struct EngineShare {
  std::string model;
  Bytes weights = 0;  // known weights; 0: unknown
  Bytes reserved = 0;
};

struct MemorySampleInput {
  // Main memory; where a card does the work, see device_sample().
  Bytes total = 0, free = 0;
  Bytes cached = 0;               // that the system gives back, where it says so
  std::optional<Bytes> observed;  // daemon and engines together, as the system accounts for them
  Bytes daemon = 0;               // resident size of this process
  std::vector<EngineShare> engines;
};

struct ModelRow {
  std::string model;
  Bytes bytes = 0;
  int replicas = 0;
};

struct MemorySample {
  Bytes total = 0, used = 0;
  Bytes ours = 0;  // of `used`; weights + cache + infrastructure
  bool measured = false;
  Bytes weights = 0, cache = 0, infrastructure = 0;
  std::vector<ModelRow> models;  // replicas merged, largest first
};
MemorySample main_memory_sample(const MemorySampleInput& input);

// The cards together; nothing unless every one reports both numbers. What is ours on them is known only where
// the system says so: a reservation is never shown as a measurement.
struct DeviceSample {
  Bytes total = 0, used = 0;
  std::optional<Bytes> ours;
};
std::optional<DeviceSample> device_sample(const std::vector<DeviceMemory>& devices,
                                          std::optional<Bytes> ours);

}  // namespace gezel::capacity
