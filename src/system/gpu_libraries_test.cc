// The libraries as functions with the names, types and structs of the real ones.
#include "system/gpu_libraries.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace gezel::system {
namespace {

using Functions = std::map<std::string, void*>;

FindFunction in(const Functions& functions) {
  return [functions](const char* name) {
    const auto found = functions.find(name);
    return found == functions.end() ? nullptr : found->second;
  };
}
template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// --- NVML (nvml.h): two GPUs, of which the second cannot tell its margin and its use.

constexpr int kNotSupported = 3;
int shutdowns = 0;
void* const kFirst = reinterpret_cast<void*>(0x1000);
void* const kSecond = reinterpret_cast<void*>(0x2000);

struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};
struct Utilization {  // nvmlUtilization_t
  unsigned gpu, memory;
};
struct Margin {  // nvmlMarginTemperature_t
  unsigned version;
  int marginTemperature;
};

Functions nvml() {
  return {
      {"nvmlInit_v2", address(+[] { return 0; })},
      {"nvmlShutdown", address(+[] { return ++shutdowns, 0; })},
      {"nvmlDeviceGetCount_v2", address(+[](unsigned* count) { return *count = 2, 0; })},
      {"nvmlDeviceGetHandleByIndex_v2",
       address(+[](unsigned index, void** device) { return *device = index == 0 ? kFirst : kSecond, 0; })},
      {"nvmlDeviceGetName", address(+[](void* device, char* name, unsigned size) {
         return std::strncpy(name, device == kFirst ? "NVIDIA H200" : "NVIDIA L4", size), 0;
       })},
      {"nvmlDeviceGetTemperature", address(+[](void* device, int sensor, unsigned* celsius) {
         return *celsius = device == kFirst ? 41 : 83, sensor == 0 ? 0 : kNotSupported;
       })},
      {"nvmlDeviceGetMarginTemperature", address(+[](void* device, Margin* margin) {
         if (device != kFirst || margin->version != 0x1000008) return kNotSupported;
         return margin->marginTemperature = 46, 0;
       })},
      {"nvmlDeviceGetUtilizationRates", address(+[](void* device, Utilization* use) {
         return *use = {7, 3}, device == kFirst ? 0 : kNotSupported;
       })},
      {"nvmlDeviceGetMemoryInfo",
       address(+[](void*, Memory* memory) { return *memory = {1'000, 400, 600}, 0; })},
      {"nvmlDeviceGetCurrentClocksEventReasons", address(+[](void* device, unsigned long long* reasons) {
         return *reasons = device == kFirst ? 0x1 : 0x40 | 0x80, 0;  // idle; hot and braked
       })},
  };
}

TEST(GpuLibraries, NvmlTellsTheStateOfEachGpu) {
  shutdowns = 0;
  const auto gpus = read_nvml(in(nvml()));
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].vendor, "nvidia");
  EXPECT_EQ(gpus[0].id, "0");
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].temperature_c, 41);
  EXPECT_EQ(gpus[0].margin_c, 46);
  EXPECT_EQ(gpus[0].utilization_percent, 7);
  EXPECT_EQ(gpus[0].memory_total, 1'000u);
  EXPECT_EQ(gpus[0].memory_used, 600u);
  EXPECT_FALSE(gpus[0].thermal_slowdown || gpus[0].power_brake);
  EXPECT_TRUE(gpus[1].thermal_slowdown && gpus[1].power_brake);
  EXPECT_EQ(shutdowns, 1);
}

TEST(GpuLibraries, WhatAGpuCannotTellIsAbsent) {
  const auto gpus = read_nvml(in(nvml()));
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_FALSE(gpus[1].margin_c);
  EXPECT_FALSE(gpus[1].utilization_percent);
}

TEST(GpuLibraries, AnOlderNvmlHasTheReasonsUnderTheirOldName) {
  auto functions = nvml();
  functions["nvmlDeviceGetCurrentClocksThrottleReasons"] =
      functions.extract("nvmlDeviceGetCurrentClocksEventReasons").mapped();
  functions.erase("nvmlDeviceGetMarginTemperature");
  const auto gpus = read_nvml(in(functions));
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_TRUE(gpus[1].thermal_slowdown);
  EXPECT_FALSE(gpus[0].margin_c);
}

TEST(GpuLibraries, ALibraryWithoutItsDriverSaysNothing) {
  auto functions = nvml();
  functions["nvmlInit_v2"] = address(+[] { return 9; });  // NVML_ERROR_DRIVER_NOT_LOADED
  EXPECT_TRUE(read_nvml(in(functions)).empty());
  EXPECT_TRUE(read_nvml(in({})).empty()) << "it is another library";
  EXPECT_TRUE(read_rocm_smi(in({})).empty());
}

TEST(GpuLibraries, AnAbsurdCountIsBounded) {
  auto functions = nvml();
  functions["nvmlDeviceGetCount_v2"] = address(+[](unsigned* count) { return *count = ~0U, 0; });
  EXPECT_EQ(read_nvml(in(functions)).size(), kMostGpus);
}

// --- ROCm SMI (rocm_smi.h): one GPU with an edge and a junction sensor.

Functions rocm() {
  return {
      {"rsmi_init", address(+[](std::uint64_t flags) { return flags == 0 ? 0 : 1; })},
      {"rsmi_shut_down", address(+[] { return ++shutdowns, 0; })},
      {"rsmi_num_monitor_devices", address(+[](std::uint32_t* count) { return *count = 1, 0; })},
      {"rsmi_dev_name_get", address(+[](std::uint32_t, char* name, std::size_t size) {
         return std::strncpy(name, "AMD Instinct MI210", size), 0;
       })},
      {"rsmi_dev_pci_id_get",
       address(+[](std::uint32_t, std::uint64_t* id) { return *id = 0x1'0000'0300 | 1 << 3, 0; })},
      {"rsmi_dev_temp_metric_get",
       address(+[](std::uint32_t, std::uint32_t sensor, std::uint32_t metric, std::int64_t* value) {
         if (sensor > 1) return 2;  // RSMI_STATUS_NOT_SUPPORTED
         if (metric == 5) return *value = sensor == 0 ? 100'000 : 110'000, 0;
         return *value = sensor == 0 ? 52'000 : 71'500, metric == 0 ? 0 : 2;
       })},
      {"rsmi_dev_busy_percent_get",
       address(+[](std::uint32_t, std::uint32_t* busy) { return *busy = 97, 0; })},
      {"rsmi_dev_memory_total_get", address(+[](std::uint32_t, std::uint32_t type, std::uint64_t* bytes) {
         return *bytes = 64ULL << 30, type == 0 ? 0 : 2;
       })},
      {"rsmi_dev_memory_usage_get", address(+[](std::uint32_t, std::uint32_t type, std::uint64_t* bytes) {
         return *bytes = 1ULL << 30, type == 0 ? 0 : 2;
       })},
  };
}

TEST(GpuLibraries, RocmSmiTellsTheHottestSensorAndTheLeastMargin) {
  const auto gpus = read_rocm_smi(in(rocm()));
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].vendor, "amd");
  EXPECT_EQ(gpus[0].id, "0001:03:01.0");
  EXPECT_EQ(gpus[0].name, "AMD Instinct MI210");
  EXPECT_EQ(gpus[0].temperature_c, 71.5);
  EXPECT_EQ(gpus[0].margin_c, 38.5);
  EXPECT_EQ(gpus[0].utilization_percent, 97);
  EXPECT_EQ(gpus[0].memory_total, 64 * kGiB);
  EXPECT_EQ(gpus[0].memory_used, kGiB);
}

// --- the sample as text

TEST(GpuSample, ComesBackAsItWasPrinted) {
  auto gpus = read_nvml(in(nvml()));
  const auto more = read_rocm_smi(in(rocm()));
  gpus.insert(gpus.end(), more.begin(), more.end());
  const std::string text = gpu_sample_text(gpus);
  EXPECT_EQ(gpu_sample_text(parse_gpu_sample(text)), text);
  EXPECT_EQ(parse_gpu_sample("a driver's warning\n" + text).size(), 3u);
}

TEST(GpuSample, AnotherSchemaOrNonsenseIsNoGpu) {
  EXPECT_TRUE(parse_gpu_sample(R"({"schemaVersion":2,"devices":[{"vendor":"nvidia"}]})").empty());
  EXPECT_TRUE(parse_gpu_sample(R"({"schemaVersion":1,"devices":[{"vendor":"other"},7]})").empty());
  for (const char* text : {"", "{", "}", "}{", "[]", "null"})
    EXPECT_TRUE(parse_gpu_sample(text).empty()) << text;
}

TEST(GpuSample, ReadingsThatCannotBeAreAbsent) {
  const auto gpus = parse_gpu_sample(
      R"({"schemaVersion":1,"devices":[{"vendor":"generic","temperatureC":"hot","marginC":1e9,)"
      R"("utilizationPercent":-1,"memoryTotalBytes":-5}]})");
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_FALSE(gpus[0].temperature_c || gpus[0].margin_c || gpus[0].utilization_percent ||
               gpus[0].memory_total);
}

}  // namespace
}  // namespace gezel::system
