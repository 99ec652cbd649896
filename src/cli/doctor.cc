#include "cli/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/bytes.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

constexpr Bytes kLittleMemory = 1 * kGiB;  // below this even small models struggle
constexpr Bytes kLittleDisk = 2 * kGiB;

// A processor's name for an instruction set, and the engine's (ggml_backend_get_features). Only those that
// change speed.
struct FeatureNames {
  std::string_view processor, engine;
};
constexpr std::array kFeatures{
    FeatureNames{"avx", "AVX"},
    FeatureNames{"avx2", "AVX2"},
    FeatureNames{"fma", "FMA"},
    FeatureNames{"f16c", "F16C"},
    FeatureNames{"bmi2", "BMI2"},
    FeatureNames{"avx_vnni", "AVX_VNNI"},
    FeatureNames{"avx512f", "AVX512"},
    FeatureNames{"avx512vbmi", "AVX512_VBMI"},
    FeatureNames{"avx512_vnni", "AVX512_VNNI"},
    FeatureNames{"avx512_bf16", "AVX512_BF16"},
    FeatureNames{"amx_int8", "AMX_INT8"},
    FeatureNames{"asimd", "NEON"},
    FeatureNames{"asimddp", "DOTPROD"},
    FeatureNames{"i8mm", "MATMUL_INT8"},
    FeatureNames{"sve", "SVE"},
};

struct GpuRemedy {
  std::string_view vendor, driver, build;
};
constexpr std::array kGpuRemedies{
    GpuRemedy{"nvidia", "apt-get install nvidia-driver", "-DGGML_CUDA=ON"},
    GpuRemedy{"amd", "apt-get install firmware-amd-graphics", "-DGGML_VULKAN=ON"},
    GpuRemedy{"intel", "apt-get install firmware-misc-nonfree", "-DGGML_VULKAN=ON"},
};

const GpuRemedy* gpu_remedy(std::string_view vendor) {
  const auto found = std::find_if(kGpuRemedies.begin(), kGpuRemedies.end(),
                                  [vendor](const GpuRemedy& row) { return row.vendor == vendor; });
  return found == kGpuRemedies.end() ? nullptr : &*found;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> out;
  while (!line.empty()) {
    const std::size_t space = std::min(line.find(' '), line.size());
    if (space > 0) out.emplace_back(line.substr(0, space));
    line.remove_prefix(std::min(line.size(), space + 1));
  }
  return out;
}

Findings judge_features(const std::vector<std::string>& engine_words, const system::CpuFacts& cpu) {
  const auto has = [](const std::vector<std::string>& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  std::vector<std::string_view> used, unused, foreign;
  for (const FeatureNames& names : kFeatures) {
    const bool processor = has(cpu.features, names.processor), engine = has(engine_words, names.engine);
    if (processor && engine) used.push_back(names.engine);
    if (processor && !engine) unused.push_back(names.engine);
    if (!processor && engine) foreign.push_back(names.engine);
  }
  Findings out;
  if (!used.empty()) {
    out.push_back(
        {"engine", "processor features", Verdict::good, fmt::format("uses {}", fmt::join(used, " ")), ""});
  }
  if (!unused.empty()) {
    out.push_back({"engine", "unused features", Verdict::warning,
                   fmt::format("this processor also has {}, which the engine was built without",
                               fmt::join(unused, " ")),
                   "build on this machine: make clean && make build"});
  }
  if (!foreign.empty() && !cpu.features.empty()) {
    out.push_back({"engine", "foreign features", Verdict::failure,
                   fmt::format("the engine was built for {}, which this processor lacks; it will crash",
                               fmt::join(foreign, " ")),
                   "build on this machine: make clean && make build"});
  }
  return out;
}

// What closes each gap that sandbox_status() names, in its order.
std::string sandbox_remedy(const system::KernelFacts& kernel) {
  std::vector<std::string_view> remedies;
  if (kernel.landlock_abi < 1)
    remedies.emplace_back(
        "add landlock to the lsm= option of the kernel's command line, for example "
        "lsm=landlock,lockdown,yama,integrity,apparmor, and restart the machine");
  if (!kernel.seccomp) remedies.emplace_back("use a kernel with CONFIG_SECCOMP_FILTER=y");
  return fmt::format("{}; in a container, let its profile allow these system calls",
                     fmt::join(remedies, "; "));
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return "ok";
    case Verdict::note:
      return "note";
    case Verdict::warning:
      return "warning";
    case Verdict::failure:
      return "failure";
  }
  return "";
}

Findings judge_machine(const MachineFacts& facts) {
  Findings out;
  const auto& cpu = facts.cpu;
  out.push_back(
      {"machine", "processor", Verdict::good,
       fmt::format("{}, {} of {} logical cores for us{}", cpu.model.empty() ? "unknown model" : cpu.model,
                   cpu.available, cpu.online, cpu.container_limit ? " (limited by the container)" : ""),
       ""});
  const auto& memory = facts.memory;
  const bool little = memory.total > 0 && memory.available < kLittleMemory;
  out.push_back({"machine", "memory", little ? Verdict::warning : Verdict::good,
                 fmt::format("{} free of {}{}", format_bytes(memory.available), format_bytes(memory.total),
                             memory.limited ? fmt::format(" (limited by the container; the machine has {})",
                                                          format_bytes(memory.physical))
                                            : ""),
                 little ? "end other programs, or raise the container's memory limit" : ""});
  if (facts.disk_free > 0) {
    const bool low = facts.disk_free < kLittleDisk;
    out.push_back({"machine", "disk", low ? Verdict::warning : Verdict::good,
                   fmt::format("{} free for models", format_bytes(facts.disk_free)),
                   low ? "free some space, or set GEZEL_HOME to a folder on a larger disk" : ""});
  }
  for (const auto& gpu : facts.gpus) {
    const bool usable = !gpu.driver.empty() && gpu.device_file;
    const GpuRemedy* remedy = gpu_remedy(gpu.vendor);
    out.push_back({"machine", "graphics", usable ? Verdict::good : Verdict::warning,
                   fmt::format("{}{}, {}", gpu.name,
                               gpu.vram_bytes ? fmt::format(" with {}", format_bytes(*gpu.vram_bytes)) : "",
                               gpu.driver.empty() ? "no driver is loaded"
                               : gpu.device_file
                                   ? fmt::format("driver {}", gpu.driver)
                                   : fmt::format("driver {}, but no device file for this user", gpu.driver)),
                   usable ? ""
                   : gpu.driver.empty()
                       ? std::string(remedy != nullptr ? remedy->driver : "install its driver")
                       : "add this user to the groups of the device: usermod -aG render,video $USER"});
  }
  if (facts.gpus.empty())
    out.push_back({"machine", "graphics", Verdict::note, "none; models run on the processor", ""});
  return out;
}

Findings judge_sandbox(const system::KernelFacts& kernel) {
  const std::string status = system::sandbox_status(kernel.landlock_abi, kernel.seccomp);
  const std::string kernel_text = kernel.release.empty() ? "" : fmt::format(" (Linux {})", kernel.release);
  if (status == "full") {
    return {{"sandbox", "workers", Verdict::good,
             fmt::format("no network, no programs, only the files of their model: Landlock {} and seccomp{}",
                         kernel.landlock_abi, kernel_text),
             ""}};
  }
  return {{"sandbox", "workers", Verdict::warning, status + kernel_text, sandbox_remedy(kernel)}};
}

Findings judge_engine(const json::object& version, std::string_view our_version,
                      const MachineFacts& machine) {
  Findings out;
  const std::string theirs = string_or(version, "version");
  const bool same = theirs == our_version;
  out.push_back({"engine", "program", same ? Verdict::good : Verdict::failure,
                 fmt::format("gezel-engine {}, {}{}", theirs, string_or(version, "libllama"),
                             same ? "" : fmt::format("; this program is {}", our_version)),
                 same ? "" : "build both together: make build"});
  bool accelerated = false;
  if (const json::array* backends = array_at(version, "backends")) {
    for (const json::value& entry : *backends) {
      if (!entry.is_string()) continue;
      const std::string_view line = entry.get_string();
      const std::size_t colon = std::min(line.find(':'), line.size());
      const std::string_view name = line.substr(0, colon);
      const std::string_view rest = line.substr(std::min(line.size(), colon + 1));
      if (name == "CPU") {
        const Findings features = judge_features(words_of(rest), machine.cpu);
        out.insert(out.end(), features.begin(), features.end());
      } else {
        accelerated = true;
        out.push_back({"engine", "accelerator", Verdict::good, fmt::format("{}{}", name, rest), ""});
      }
    }
  }
  for (const auto& gpu : machine.gpus) {
    if (accelerated) break;
    const GpuRemedy* remedy = gpu_remedy(gpu.vendor);
    if (remedy == nullptr) continue;
    out.push_back(
        {"engine", "accelerator", Verdict::warning,
         fmt::format("{} is not used: the engine was built for the processor only", gpu.name),
         fmt::format("install a libllama that was built with {} and build with -DGEZEL_SYSTEM_LLAMA=ON",
                     remedy->build)});
  }
  return out;
}

Findings judge_backend(const Result<engine::BackendChoice>& choice) {
  if (!choice)
    return {{"engine", "backend", Verdict::failure, choice.error().message, "unset GEZEL_LLAMA_BACKEND"}};
  return {{"engine", "backend", Verdict::good, choice->reason, ""}};
}

Findings judge_survey(const engine::GpuSurvey& survey) {
  Findings out;
  for (const auto& device : survey.devices) {
    const auto* card = system::match_card(survey.cards, device.id, device.name);
    out.push_back({"graphics", device.id, Verdict::note,
                   fmt::format("{} with {}{}", device.name, format_bytes(device.total_mib * kMiB),
                               card == nullptr ? ""
                                               : fmt::format(", driver {}, compute capability {}",
                                                             card->driver, card->compute_capability)),
                   ""});
  }
  return out;
}

Findings judge_self_test(const json::object& report) {
  const json::array* rows = array_at(report, "rows");
  if (rows == nullptr) {
    return {{"engine", "self-test", Verdict::failure,
             fmt::format("printed no table and ended with status {}", int_or(report, "exit_status", -1)),
             "see what it says: gezel-engine --self-test"}};
  }
  // One line per buffer type that fails, because that is what the engine then does without.
  std::map<std::string, std::vector<std::string>> failing;
  std::size_t good = 0;
  for (const json::value& value : *rows) {
    if (!value.is_object()) continue;
    const json::object& row = value.get_object();
    if (bool_or(row, "ok", false)) {
      ++good;
      continue;
    }
    failing[fmt::format("{} {}", string_or(row, "backend"), string_or(row, "buffer_type"))].push_back(
        fmt::format("{} with {} rows: {}", string_or(row, "type"), int_or(row, "rows", 0),
                    string_or(row, "failure")));
  }
  Findings out;
  for (const auto& [what, problems] : failing) {
    out.push_back({"engine", "self-test", good > 0 ? Verdict::warning : Verdict::failure,
                   fmt::format("{} computes wrong and is not used ({}{})", what, problems.front(),
                               problems.size() > 1 ? fmt::format(" and {} more", problems.size() - 1) : ""),
                   "build with clang 19 on this machine: make clean && make build"});
  }
  if (failing.empty()) {
    out.push_back({"engine", "self-test", good > 0 ? Verdict::good : Verdict::failure,
                   fmt::format("{} computations are right", good), ""});
  }
  return out;
}

Findings judge_neighbour(const json::object& ps) {
  const auto* value = ps.if_contains("neighbour");
  if (value == nullptr || !value->is_object()) return {};
  const json::object& neighbour = value->get_object();
  constexpr std::string_view kArea = "daemon", kSubject = "good neighbour";
  const auto finding = [&](Verdict verdict, std::string detail, std::string remedy = {}) {
    return Finding{std::string(kArea), std::string(kSubject), verdict, std::move(detail), std::move(remedy)};
  };
  if (string_or(neighbour, "mode") == "off")
    return {finding(Verdict::good, "off; models use their full share whatever else runs")};
  const auto* others = neighbour.if_contains("others_cpu");
  const std::string share =
      others != nullptr && others->is_double()
          ? fmt::format("other programs use {:.0f} % of the processors", others->get_double() * 100)
          : std::string("what other programs use is unknown");
  if (string_or(neighbour, "state") == "yielding") {
    return {finding(Verdict::note,
                    fmt::format("models take half the threads and a low priority since {}: {}",
                                string_or(neighbour, "since"), share),
                    "gezel serve --good-neighbour off")};
  }
  Findings out{finding(Verdict::good, fmt::format("models use their full share; {}", share))};
  const json::array* models = array_at(ps, "models");
  for (const json::value& model : models != nullptr ? *models : json::array()) {
    if (!model.is_object() || int_or(model.get_object(), "nice", 0) == 0) continue;
    out.push_back(
        finding(Verdict::note,
                fmt::format("{} keeps a low priority until its next load: this user may not raise it again",
                            string_or(model.get_object(), "id")),
                "gezel stop MODEL, or allow it: ulimit -e 20 (LimitNICE=0 of a systemd unit)"));
  }
  return out;
}

json::object facts_json(const MachineFacts& facts) {
  json::array gpus;
  for (const auto& gpu : facts.gpus) {
    json::object entry{
        {"vendor", gpu.vendor}, {"name", gpu.name}, {"driver", gpu.driver}, {"usable", gpu.device_file}};
    if (gpu.vram_bytes) entry["vram_bytes"] = *gpu.vram_bytes;
    gpus.push_back(std::move(entry));
  }
  return {{"cpu", json::object{{"model", facts.cpu.model},
                               {"online", facts.cpu.online},
                               {"available", facts.cpu.available},
                               {"features", json::value_from(facts.cpu.features)}}},
          {"memory", json::object{{"physical_bytes", facts.memory.physical},
                                  {"total_bytes", facts.memory.total},
                                  {"available_bytes", facts.memory.available},
                                  {"limited", facts.memory.limited}}},
          {"gpus", std::move(gpus)},
          {"kernel", json::object{{"release", facts.kernel.release},
                                  {"landlock_abi", facts.kernel.landlock_abi},
                                  {"seccomp", facts.kernel.seccomp}}},
          {"disk_free_bytes", facts.disk_free}};
}

json::object findings_json(const Findings& findings) {
  json::array list;
  for (const Finding& finding : findings) {
    list.push_back({{"area", finding.area},
                    {"subject", finding.subject},
                    {"verdict", verdict_name(finding.verdict)},
                    {"detail", finding.detail},
                    {"remedy", finding.remedy.empty() ? json::value() : json::value(finding.remedy)}});
  }
  return {{"ok", all_well(findings)}, {"findings", std::move(list)}};
}

bool all_well(const Findings& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.verdict == Verdict::failure; });
}

std::string render_findings(const Findings& findings, bool color) {
  struct Mark {
    std::string_view text;
    Tone tone;
  };
  constexpr std::array kMarks{Mark{"ok", Tone::green}, Mark{"--", Tone::dim}, Mark{"!!", Tone::yellow},
                              Mark{"XX", Tone::red}};
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  std::string out, area;
  for (const Finding& finding : findings) {
    if (finding.area != area) {
      out += fmt::format("{}{}\n", out.empty() ? "" : "\n", paint(Tone::bold, finding.area, color));
      area = finding.area;
    }
    const Mark& mark = kMarks[static_cast<std::size_t>(finding.verdict)];
    out += fmt::format("  {}  {:<{}}  {}\n", paint(mark.tone, mark.text, color), finding.subject, width,
                       terminal_text(finding.detail));
    if (!finding.remedy.empty()) {
      out += fmt::format("      {:<{}}  -> {}\n", "", width, paint(Tone::bold, finding.remedy, color));
    }
  }
  return out;
}

}  // namespace gezel::cli
