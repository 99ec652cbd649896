// cli/doctor.h
//
// What is right and what is wrong on this machine, and what to do about it. The judgements are pure: facts
// in, findings out; gathering the facts is the command's.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/backend.h"
#include "engine/gpu_survey.h"
#include "system/cpu.h"
#include "system/gpu.h"
#include "system/kernel.h"
#include "system/memory.h"

namespace gezel::cli {

enum class Verdict { good, note, warning, failure };  // only a failure makes `gezel doctor` exit with 1
std::string_view verdict_name(Verdict verdict);

struct Finding {
  std::string area;     // "machine", "engine", "sandbox", "daemon", "models", "profiles"
  std::string subject;  // "memory"
  Verdict verdict = Verdict::good;
  std::string detail;
  std::string remedy;  // the exact command or setting; "" = nothing to do
};
using Findings = std::vector<Finding>;

struct MachineFacts {
  system::CpuFacts cpu;
  system::MemoryFacts memory;
  std::vector<system::GpuFacts> gpus;
  system::KernelFacts kernel;
  Bytes disk_free = 0;  // where models are kept; 0 = unknown
};

Findings judge_machine(const MachineFacts& facts);
Findings judge_sandbox(const system::KernelFacts& kernel);

// `version`: what `gezel-engine --version --json` printed. Compares its build with ours, its processor
// features and accelerators with what the machine has.
Findings judge_engine(const json::object& version, std::string_view our_version, const MachineFacts& machine);

// On what models compute, and why.
Findings judge_backend(const Result<engine::BackendChoice>& choice);
// Devices that the engine's program sees; none where it sees none.
Findings judge_survey(const engine::GpuSurvey& survey);

// `report`: what `gezel-engine --self-test` printed, {rows: [{backend, buffer_type, type, rows, ok,
// failure}]}.
Findings judge_self_test(const json::object& report);

// `ps`: the body of GET /api/ps. Do models step back for other programs, and does one that no longer should
// keep its low priority?
Findings judge_neighbour(const json::object& ps);

json::object facts_json(const MachineFacts& facts);
json::object findings_json(const Findings& findings);  // {ok, findings: [...]}
bool all_well(const Findings& findings);               // no failure

// Groups by area; remedies on lines of their own.
std::string render_findings(const Findings& findings, bool color);

}  // namespace gezel::cli
