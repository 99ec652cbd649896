// engine/gpu_survey.h
//
// What this machine could compute models on: the backend it is made for and the devices that the engine's
// program and the drivers' tools see (spec 30 sections 4.1.5 and 4.1.6, spec 20 section 2).
//
// Blocking, for a pool thread: programs are run. What they said is kept in <home>/engines/llama-cpp,
// backend.json and devices.json, and they are asked again only when the engine, the driver or the hardware is
// another one. On a machine without GPU and driver nothing is run, read or written.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "engine/backend.h"
#include "system/device_cache.h"
#include "system/gpu_tools.h"

namespace gezel::engine {

// --- backend.json: pure

struct BackendCache {
  static constexpr int kSchemaVersion = 1;
  std::string engine_version;
  BackendHost host;  // with the presence of the drivers
  Backend backend = Backend::cpu;
  std::string reason, vendor_hint;
  std::string probed_at;  // ISO 8601, UTC
};
std::string backend_cache_text(const BackendCache& cache);
// Nothing where the text is none of this schema, or was made by another engine or with other drivers.
std::optional<BackendCache> cached_backend(std::string_view text, std::string_view engine_version,
                                           const BackendHost& host);

// "nvidia" before "amd" before "intel"; "": none of them.
std::string_view vendor_hint(const std::vector<system::GpuFacts>& gpus);

// --- the survey

struct GpuSurveyParts {
  fs::path home, engine_program;
  std::string engine_version;
  BackendHost host;
  Bytes total_ram = 0;
  WallTime now{};
  std::vector<system::GpuFacts> gpus;  // as the kernel shows them
  system::GpuTools tools;
  system::ToolRunner run = system::run_gpu_tool;
  bool force = false;  // whatever is kept
};

struct GpuSurvey {
  Backend backend = Backend::cpu;  // that the machine is made for, whether there is a build of it or not
  std::string reason, vendor;
  std::vector<system::Device> devices;  // that the engine's program sees; free memory is stale when cached
  bool cached = false;                  // `devices` is what was kept
  std::optional<system::NvidiaMemory> nvidia;
  std::vector<system::NvidiaCard> cards;
};

// Never fails: what cannot be found out is left out, and a file that cannot be written is asked for again.
GpuSurvey survey_gpus(const GpuSurveyParts& parts);

}  // namespace gezel::engine
