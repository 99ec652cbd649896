// system/gpu_libraries.h
//
// The state of GPUs from the management libraries of their drivers: NVML (NVIDIA's nvml.h) and ROCm SMI
// (AMD's rocm_smi.h), as far as they are on this machine. Only `gezel-engine --gpu-health` calls this, a
// process of its own that is killed when it takes too long: a driver that hangs or crashes must not take the
// service along.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "system/gpu_health.h"

namespace gezel::system {

// The function of that name in a library; null: it has none, which older versions may.
using FindFunction = std::function<void*(const char* name)>;

// Empty where a function that is needed is missing or fails; what a GPU cannot tell is absent of it.
std::vector<GpuHealth> read_nvml(const FindFunction& find);
std::vector<GpuHealth> read_rocm_smi(const FindFunction& find);

// Opens what this machine has of the two.
std::vector<GpuHealth> read_gpu_libraries();

// {"schemaVersion": 1, "devices": [{vendor, id, name, temperatureC, marginC, utilizationPercent,
// memoryUsedBytes, memoryTotalBytes, thermalSlowdown, powerBrake}]}: what --gpu-health prints, and what a
// helper of the user's (GEZEL_DEVICE_HEALTH_BIN) prints for `sample --json`. Vendors are nvidia, amd, apple,
// generic.
std::string gpu_sample_text(const std::vector<GpuHealth>& gpus);
// Readings that cannot be are absent; another schema is no GPU at all.
std::vector<GpuHealth> parse_gpu_sample(std::string_view text);

}  // namespace gezel::system
