#include "service/gpu_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/admission.h"
#include "engine_llama/embedded_engine.h"
#include "system/gpu.h"
#include "system/gpu_tools.h"
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
  const auto serialize = variable("GEZEL_SERIALIZE_GPU_LOADS");
  out.serialize_loads = engine::serialize_loads(kMacos, serialize);
  if (!serialize.empty() && serialize != "on" && serialize != "off")
    ignored.push_back(fmt::format("GEZEL_SERIALIZE_GPU_LOADS is '{}'; it may be on, off", serialize));
  if (const auto text = variable("GEZEL_GPU_MEMORY_POLICY"); !text.empty()) {
    if (const auto policy = engine::parse_gpu_policy(text))
      out.policy = *policy;
    else
      ignored.push_back(fmt::format("GEZEL_GPU_MEMORY_POLICY is '{}'; it may be auto, coexist, swap", text));
  }
  if (const auto text = variable("GEZEL_DEVICE_HEALTH_BIN"); !text.empty()) {
    if (fs::path(text).is_absolute())
      out.health_helper = text;
    else
      ignored.push_back(
          fmt::format("GEZEL_DEVICE_HEALTH_BIN is '{}'; it must be the absolute path of a program", text));
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
                                               const GpuSettings& settings,
                                               const std::filesystem::path& engine_program,
                                               const system::ToolRunner& run) {
  const auto timers = std::make_shared<engine::LoopTimers>(loop);
  const auto gpus = system::find_gpus();
  auto tools = system::find_gpu_tools();
  tools.engine = engine_program;
  tools.helper = settings.health_helper;
  std::function<engine::GpuSample()> sample;
  std::function<std::vector<system::GpuUser>()> users;
  if (!gpus.empty()) {
    sample = [gpus, tools, run] { return system::read_gpu_health(gpus, tools, run); };
    users = [tools, run] { return system::ask_gpu_users(tools, run); };
  }
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
                                                                             .settings = settings.safety,
                                                                             .users = std::move(users)})});
}

namespace {

json::array gpu_users_json(const engine::DeviceSafety& safety, const std::vector<int>& own) {
  const std::vector<std::int64_t> ours(own.begin(), own.end());
  json::array users;
  for (const auto& user : safety.last_users()) {
    users.push_back(json::object{{"pid", user.pid},
                                 {"program", fs::path(user.program).filename().string()},
                                 {"kind", system::gpu_user_label(system::gpu_user_kind(user, ours))},
                                 {"bytes", or_null(user.bytes)}});
  }
  return users;
}

}  // namespace

json::object device_safety_json(const engine::DeviceSafety& safety, const std::vector<int>& own,
                                bool show_programs) {
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
  json::object out{{"mode", engine::safety_mode_name(safety.settings().mode)},
                   {"state", engine::safety_state_name(safety.state())},
                   {"gpus", std::move(gpus)}};
  if (show_programs) out["users"] = gpu_users_json(safety, own);
  return out;
}

engine::GpuSurvey survey_this_machine(const fs::path& home, const fs::path& engine_program,
                                      const std::string& version, WallTime now,
                                      const system::ToolRunner& run) {
  return engine::survey_gpus({.home = home,
                              .engine_program = engine_program,
                              .engine_version = version,
                              .host = backend_host(),
                              .total_ram = system::read_memory().total,
                              .now = now,
                              .gpus = system::find_gpus(),
                              .tools = system::find_gpu_tools(),
                              .run = run});
}

json::object survey_json(const engine::GpuSurvey& survey) {
  // In the order of system::DeviceKind.
  constexpr std::array<std::string_view, 4> kKinds{"discrete", "integrated", "unified", "unknown"};
  json::array devices;
  for (const auto& device : survey.devices) {
    devices.push_back(json::object{{"id", device.id},
                                   {"name", device.name},
                                   {"kind", kKinds[static_cast<std::size_t>(system::device_kind(device))]},
                                   {"total_bytes", device.total_mib * kMiB}});
  }
  json::object out{{"backend", engine::backend_name(survey.backend)},
                   {"reason", survey.reason},
                   {"vendor", survey.vendor.empty() ? json::value() : json::value(survey.vendor)},
                   {"devices", std::move(devices)},
                   {"cached", survey.cached}};
  if (survey.nvidia) out["vram_bytes"] = survey.nvidia->vram_bytes;
  if (!survey.cards.empty()) out["driver"] = survey.cards.front().driver;
  return out;
}

}  // namespace gezel::service
