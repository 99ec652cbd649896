#include "system/gpu_tools.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/process.h"
#include "system/gpu_libraries.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFolders = {"/usr/bin", "/usr/local/bin", "/opt/bin", "/opt/rocm/bin",
                                 "/usr/lib/wsl/lib"};

fs::path find_tool(const fs::path& root, const char* name) {
  for (const char* folder : kFolders) {
    std::error_code error;
    if (fs::exists(under(root, folder) / name, error)) return under(root, folder) / name;
  }
  return {};
}

// "" where the tool is not here or fails.
std::string ask(const ToolRunner& run, const fs::path& tool, const std::vector<std::string>& arguments,
                Millis limit) {
  if (tool.empty()) return {};
  auto text = run(tool, arguments, limit);
  if (text) return std::move(*text);
  log_debug("a tool says nothing of the GPUs",
            {{"tool", tool.filename().string()}, {"reason", text.error().message}});
  return {};
}

std::string ask_nvidia(const GpuTools& tools, const ToolRunner& run, std::string_view query, Millis limit) {
  return ask(run, tools.nvidia_smi, {std::string(query), std::string(kNvidiaHealthFormat)}, limit);
}

bool has(const std::vector<GpuFacts>& gpus, std::string_view vendor) {
  return std::ranges::find(gpus, vendor, &GpuFacts::vendor) != gpus.end();
}

}  // namespace

GpuTools find_gpu_tools(const fs::path& root) {
  return {find_tool(root, "nvidia-smi"), find_tool(root, "amd-smi"), find_tool(root, "rocm-smi")};
}

Result<std::string> run_gpu_tool(const fs::path& program, const std::vector<std::string>& arguments,
                                 Millis limit) {
  return run_tool(program, arguments, limit, kMostToolOutput);
}

ToolRunner gpu_tool_runner(std::stop_token stop) {
  return [stop = std::move(stop)](const fs::path& program, const std::vector<std::string>& arguments,
                                  Millis limit) -> Result<std::string> {
    if (stop.stop_requested())
      return fail(ErrorKind::cancelled, "tool_stopped", "the service is ending; no program is started");
    return run_tool(program, arguments, limit, kMostToolOutput, stop);
  };
}

std::optional<NvidiaMemory> ask_nvidia_memory(const GpuTools& tools, const ToolRunner& run) {
  return parse_nvidia_memory(ask_nvidia(tools, run, "--query-gpu=name,memory.total", kNvidiaMemoryTime));
}

std::vector<NvidiaCard> ask_nvidia_cards(const GpuTools& tools, const ToolRunner& run) {
  // Without a unit there is no other format here.
  return parse_nvidia_cards(
      ask(run, tools.nvidia_smi,
          {"--query-gpu=index,name,compute_cap,driver_version", "--format=csv,noheader"}, kGpuToolTime));
}

std::vector<GpuUser> ask_gpu_users(const GpuTools& tools, const ToolRunner& run) {
  return parse_nvidia_users(ask_nvidia(tools, run, kNvidiaUsersQuery, kGpuToolTime));
}

std::vector<Device> ask_engine_devices(const fs::path& program, const ToolRunner& run) {
  return parse_device_list(ask(run, program, {"--list-devices"}, kDeviceListTime));
}

std::vector<GpuHealth> read_gpu_health(const std::vector<GpuFacts>& gpus, const GpuTools& tools,
                                       const ToolRunner& run, const fs::path& root) {
  if (auto told = parse_gpu_sample(ask(run, tools.helper, {"sample", "--json"}, kGpuToolTime)); !told.empty())
    return told;
  auto out = read_sensor_health(root);
  const auto of = [&](std::string_view vendor) {
    return [vendor](const GpuHealth& gpu) { return gpu.vendor == vendor; };
  };
  const auto add = [&](std::vector<GpuHealth> more) {
    std::ranges::move(more, std::back_inserter(out));
    return !more.empty();
  };
  // The sensors of this driver are its own library's and tool's to read.
  std::erase_if(out, of("nvidia"));
  const auto unknown = [&](std::string_view vendor) {
    return has(gpus, vendor) && std::ranges::none_of(out, of(vendor));
  };
  if (unknown("nvidia") || unknown("amd")) {
    auto told = parse_gpu_sample(ask(run, tools.engine, {"--gpu-health"}, kGpuToolTime));
    std::erase_if(told, [&](const GpuHealth& gpu) { return !unknown(gpu.vendor); });
    add(std::move(told));
  }
  if (unknown("nvidia")) add(parse_nvidia_health(ask_nvidia(tools, run, kNvidiaHealthQuery, kGpuToolTime)));
  if (unknown("amd")) {
    if (!add(parse_amd_smi(
            ask(run, tools.amd_smi, {kAmdHealthQuery.begin(), kAmdHealthQuery.end()}, kGpuToolTime))))
      add(parse_rocm_smi(
          ask(run, tools.rocm_smi, {kRocmHealthQuery.begin(), kRocmHealthQuery.end()}, kGpuToolTime)));
  }
  return out;
}

}  // namespace gezel::system
