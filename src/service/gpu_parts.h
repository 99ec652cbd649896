// service/gpu_parts.h
//
// GPUs as the service has them: what is asked of them before something starts on one, and what is told of
// them.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/json.h"
#include "engine/backend.h"
#include "engine/gpu_gate.h"
#include "engine/gpu_survey.h"
#include "system/gpu_tools.h"

namespace gezel::service {

struct GpuSettings {
  std::optional<engine::Backend> backend;  // GEZEL_LLAMA_BACKEND; unset: the best of this machine
  engine::GpuPolicy policy = engine::GpuPolicy::automatic;  // GEZEL_GPU_MEMORY_POLICY
  engine::SafetySettings safety;                            // GEZEL_DEVICE_SAFETY_*
  engine::PanicGuard panics;                                // GEZEL_GPU_PANIC_*
  bool serialize_loads = false;                             // GEZEL_SERIALIZE_GPU_LOADS
  // GEZEL_DEVICE_HEALTH_BIN: a program that tells the state of the GPUs (system/gpu_libraries.h); "" = none
  std::filesystem::path health_helper;
};
// From variables of the environment, by their full name. What is ignored is named in `ignored`.
GpuSettings read_gpu_settings(const std::function<std::string(std::string_view)>& variable,
                              std::vector<std::string>& ignored);

// The host that this program was built for, with the driver libraries of this machine.
engine::BackendHost backend_host();
// Which of the builds of the embedded engine is started. Error `engine-unusable` for a wish that is no build.
Result<engine::BackendChoice> choose_engine_backend(std::optional<engine::Backend> wish,
                                                    const engine::BackendHost& host);

// The gate of this machine. Where it has no GPU there is nothing to wait for. `run` is how programs are asked
// for the state of GPUs.
std::shared_ptr<engine::GpuGate> make_gpu_gate(const boost::asio::any_io_executor& loop,
                                               const boost::asio::any_io_executor& pool, const Clock& clock,
                                               const GpuSettings& settings,
                                               const std::filesystem::path& engine_program,
                                               const system::ToolRunner& run);

// {mode, state, gpus: [...]} of what was last seen, and with `show_programs` also users: [...], who holds
// memory of a GPU. `own`: this service's processes.
json::object device_safety_json(const engine::DeviceSafety& safety, const std::vector<int>& own,
                                bool show_programs);

// Asks programs, so blocking; see engine/gpu_survey.h.
engine::GpuSurvey survey_this_machine(const std::filesystem::path& home,
                                      const std::filesystem::path& engine_program, const std::string& version,
                                      WallTime now, const system::ToolRunner& run = system::run_gpu_tool);
json::object survey_json(const engine::GpuSurvey& survey);

}  // namespace gezel::service
