// system/gpu_tools.h
//
// The programs that come with a GPU's driver, asked one question each (spec 20 section 2, spec 30
// section 10.5). Blocking, for a pool thread: each has its time, a tool that hangs or prints without end is
// stopped, and what it says is read as untrusted text. The drivers' own libraries are loaded into a tool, the
// engine's program, and never into this process: a driver that hangs or crashes takes that down and not the
// service.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "system/devices.h"
#include "system/gpu.h"
#include "system/gpu_health.h"
#include "system/gpu_users.h"

namespace gezel::system {

// Where they are; "": not on this machine. Only folders that an administrator writes to are looked at.
struct GpuTools {
  std::filesystem::path nvidia_smi, amd_smi, rocm_smi;
  // Of whoever looks for the tools: the engine's program, which asks the drivers' libraries, and a helper of
  // the user's (GEZEL_DEVICE_HEALTH_BIN).
  std::filesystem::path engine = {}, helper = {};
};
GpuTools find_gpu_tools(const std::filesystem::path& root = "/");

inline constexpr Millis kNvidiaMemoryTime{2'000}, kGpuToolTime{5'000}, kDeviceListTime{20'000};
inline constexpr std::size_t kMostToolOutput = 256 * kKiB;

// Runs a tool and answers with what it printed; see run_tool() for the errors.
using ToolRunner = std::function<Result<std::string>(
    const std::filesystem::path& program, const std::vector<std::string>& arguments, Millis limit)>;
Result<std::string> run_gpu_tool(const std::filesystem::path& program,
                                 const std::vector<std::string>& arguments, Millis limit);
// The same until somebody asks to stop: then the tool that runs is killed, and none is started any more.
ToolRunner gpu_tool_runner(std::stop_token stop);

// Nothing, and a line in the log, where a tool is not here or fails.
std::optional<NvidiaMemory> ask_nvidia_memory(const GpuTools& tools, const ToolRunner& run = run_gpu_tool);
std::vector<NvidiaCard> ask_nvidia_cards(const GpuTools& tools, const ToolRunner& run = run_gpu_tool);
std::vector<GpuUser> ask_gpu_users(const GpuTools& tools, const ToolRunner& run = run_gpu_tool);
// What an engine's program lists with --list-devices.
std::vector<Device> ask_engine_devices(const std::filesystem::path& program,
                                       const ToolRunner& run = run_gpu_tool);

// The state of the GPUs `gpus`: what the helper says, if there is one that says anything. Else AMD's and
// others by the kernel's sensors; those of NVIDIA, and of AMD where the sensors say nothing, by their library
// (gpu_libraries.h), then by their tools.
std::vector<GpuHealth> read_gpu_health(const std::vector<GpuFacts>& gpus, const GpuTools& tools,
                                       const ToolRunner& run = run_gpu_tool,
                                       const std::filesystem::path& root = "/");

}  // namespace gezel::system
