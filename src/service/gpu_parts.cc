#include "service/gpu_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/process.h"
#include "engine_llama/embedded_engine.h"
#include "system/gpu.h"
#include "system/gpu_health.h"
#include "system/memory.h"

namespace gezel::service {
namespace {

#if defined(__APPLE__)
constexpr bool kMacos = true;
#else
constexpr bool kMacos = false;
#endif
#if defined(__aarch64__)
constexpr bool kArm64 = true;
#else
constexpr bool kArm64 = false;
#endif

constexpr Millis kToolTime{5'000};
constexpr std::size_t kMostToolOutput = 256 * kKiB;
constexpr std::array kNvidiaSmi = {"/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi", "/opt/bin/nvidia-smi",
                                   "/usr/lib/wsl/lib/nvidia-smi"};

engine::GpuSample read_health(bool nvidia) {
  engine::GpuSample out = system::read_sensor_health();
  // The sensors of this driver are its own tool's to read.
  std::erase_if(out, [](const auto& gpu) { return gpu.vendor == "nvidia"; });
  std::error_code error;
  const auto tool =
      std::ranges::find_if(kNvidiaSmi, [&](const char* path) { return fs::exists(path, error); });
  if (!nvidia || tool == kNvidiaSmi.end()) return out;
  const auto text =
      run_tool(*tool, {std::string(system::kNvidiaHealthQuery), std::string(system::kNvidiaHealthFormat)},
               kToolTime, kMostToolOutput);
  if (!text) {
    log_debug("a GPU's state could not be read", {{"reason", text.error().message}});
    return out;
  }
  for (auto& gpu : system::parse_nvidia_health(*text)) out.push_back(std::move(gpu));
  return out;
}

template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value();
}

}  // namespace

GpuSettings read_gpu_settings(const std::function<std::string(std::string_view)>& variable,
                              std::vector<std::string>& ignored) {
  GpuSettings out;
  out.safety = engine::safety_settings(
      [&](std::string_view name) { return variable(fmt::format("GEZEL_DEVICE_SAFETY_{}", name)); }, ignored);
  out.panics = engine::panic_guard(kMacos, variable("HOME"), variable("GEZEL_GPU_PANIC_GUARD"),
                                   variable("GEZEL_GPU_PANIC_COOLDOWN_HOURS"));
  if (const auto text = variable("GEZEL_GPU_MEMORY_POLICY"); !text.empty()) {
    if (const auto policy = engine::parse_gpu_policy(text))
      out.policy = *policy;
    else
      ignored.push_back(fmt::format("GEZEL_GPU_MEMORY_POLICY is '{}'; it may be auto, coexist, swap", text));
  }
  if (const auto text = variable("GEZEL_LLAMA_BACKEND"); !text.empty() && text != "auto") {
    out.backend = engine::parse_backend(text);
    if (!out.backend)
      ignored.push_back(
          fmt::format("GEZEL_LLAMA_BACKEND is '{}'; it may be auto, cuda, vulkan, metal, cpu", text));
  }
  return out;
}

engine::BackendHost backend_host() {
  const auto drivers = system::find_driver_libraries();
  return {.macos = kMacos, .arm64 = kArm64, .cuda_driver = drivers.cuda, .vulkan_driver = drivers.vulkan};
}

Result<engine::BackendChoice> choose_engine_backend(std::optional<engine::Backend> wish,
                                                    const engine::BackendHost& host) {
  constexpr auto& kBuilds = engine_llama::kBuiltBackends;
  if (wish && std::ranges::find(kBuilds, *wish) == kBuilds.end()) {
    return fail(ErrorKind::invalid, "engine-unusable",
                fmt::format("GEZEL_LLAMA_BACKEND is {}, for which this engine was not built. Use auto or {}.",
                            engine::backend_name(*wish), engine::backend_name(kBuilds.front())));
  }
  return engine::choose_backend(wish, engine::detect_backend(host), kBuilds, {}, {});
}

std::shared_ptr<engine::GpuGate> make_gpu_gate(const boost::asio::any_io_executor& loop,
                                               const boost::asio::any_io_executor& pool, const Clock& clock,
                                               const GpuSettings& settings) {
  const auto timers = std::make_shared<engine::LoopTimers>(loop);
  const auto gpus = system::find_gpus();
  const bool nvidia = std::ranges::find(gpus, "nvidia", &system::GpuFacts::vendor) != gpus.end();
  std::function<engine::GpuSample()> sample;
  if (!gpus.empty()) sample = [nvidia] { return read_health(nvidia); };
  return std::make_shared<engine::GpuGate>(engine::GpuGate::Parts{
      .loop = loop,
      .pool = pool,
      .clock = clock,
      .timers = timers,
      .panics = settings.panics,
      .policy = engine::resolve_gpu_policy(settings.policy, kMacos && kArm64, system::read_memory().physical),
      .safety =
          std::make_shared<engine::DeviceSafety>(engine::DeviceSafety::Parts{.loop = loop,
                                                                             .pool = pool,
                                                                             .clock = clock,
                                                                             .timers = timers,
                                                                             .sample = std::move(sample),
                                                                             .settings = settings.safety})});
}

json::object device_safety_json(const engine::DeviceSafety& safety) {
  json::array gpus;
  for (const auto& gpu : safety.last_sample()) {
    gpus.push_back(json::object{{"id", gpu.id},
                                {"name", gpu.name},
                                {"vendor", gpu.vendor},
                                {"temperature_c", or_null(gpu.temperature_c)},
                                {"margin_c", or_null(gpu.margin_c)},
                                {"utilization_percent", or_null(gpu.utilization_percent)},
                                {"memory_used", or_null(gpu.memory_used)},
                                {"memory_total", or_null(gpu.memory_total)},
                                {"thermal_slowdown", gpu.thermal_slowdown},
                                {"power_brake", gpu.power_brake}});
  }
  return {{"mode", engine::safety_mode_name(safety.settings().mode)},
          {"state", engine::safety_state_name(safety.state())},
          {"gpus", std::move(gpus)}};
}

}  // namespace gezel::service
