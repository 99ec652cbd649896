// What a finished self-test says, and how a death of the child is explained.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "calibration/explain.h"
#include "calibration/self_test.h"

namespace gezel::calibration {
namespace {

// Buffer types that exist for one instruction family.
struct Family {
  std::string_view buffer_type;
  std::string_view instructions;
  std::string_view without;  // how to build libllama without it
};
constexpr Family kFamilies[] = {
    {"AMX", "the AMX tile instructions", "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"},
    {"CPU_REPACK", "the vector instructions over repacked weights", "-DGGML_CPU_REPACK=OFF"},
    {"CPU_KLEIDIAI", "the KleidiAI instructions (dot product, i8mm, SME)", "-DGGML_CPU_KLEIDIAI=OFF"},
    {"CPU_RISCV64_SPACEMIT", "the SpacemiT matrix instructions", "-DGGML_CPU_RISCV64_SPACEMIT=OFF"},
};

}  // namespace

std::string explain_end(ExitStatus status, const std::string& buffer_type, const std::string& features) {
  std::string text = describe(status);
  const auto* family = std::ranges::find(kFamilies, buffer_type, &Family::buffer_type);
  const bool known = family != std::end(kFamilies);
  text += fmt::format(" in {}", known ? std::string(family->instructions)
                                      : fmt::format("the plain kernels of this build ({})",
                                                    features.empty() ? "unknown features" : features));
  constexpr int kIllegalInstruction = 4;
  if (status.signal == kIllegalInstruction) {
    text +=
        ": the engine was built for another processor; remove its cached build and run `make build` on this "
        "machine";
  } else {
    text += ": the compiler that built libllama broke this kernel; build with clang 19 or newer";
  }
  if (known) text += fmt::format(", or without them ({})", family->without);
  return text + ". Until then this combination is not used.";
}

bool SelfTestReport::ok() const {
  return !rows.empty() && std::ranges::all_of(rows, &SelfTestRow::ok);
}

std::vector<std::string> SelfTestReport::failing_buffer_types() const {
  std::vector<std::string> names;
  for (const auto& row : rows) {
    if (row.ok) continue;
    // The plain layout is what remains when all others are out, so only the weight type is given up there.
    const std::string name = row.buffer_type == "CPU" ? "CPU:" + row.type : row.buffer_type;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string SelfTestReport::json() const {
  json::array table;
  for (const auto& row : rows) {
    json::object out{
        {"backend", row.backend}, {"buffer_type", row.buffer_type}, {"type", row.type}, {"rows", row.rows}};
    // JSON has no infinity: an error that is not finite is null, and the failure says so.
    if (std::isfinite(row.max_error)) {
      out["max_error"] = row.max_error;
    } else {
      out["max_error"] = nullptr;
    }
    out["micros"] = row.micros;
    out["ok"] = row.ok;
    if (!row.failure.empty()) out["failure"] = row.failure;
    table.emplace_back(std::move(out));
  }
  json::array failing;
  for (const auto& name : failing_buffer_types()) failing.emplace_back(name);
  return to_json(
      json::object{{"ok", ok()}, {"failing_buffer_types", std::move(failing)}, {"rows", std::move(table)}});
}

}  // namespace gezel::calibration
