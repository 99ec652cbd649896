// cli/engine_program.h
//
// The gezel-engine program: where it is, and what it says about itself.
#pragma once
#include "base/json.h"
#include "base/result.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/environment.h"

namespace gezel::cli {

// Absolute path of the engine: --engine, GEZEL_ENGINE, or beside this program. Error `engine_missing` says
// where it was looked for and how to get it.
Result<fs::path> engine_program(const Environment& env, const Arguments& arguments);

// The JSON object that `gezel-engine <arguments>` prints; log lines around it are skipped. The exit status is
// added as "exit_status" (a signal counts as 128 + its number).
Result<json::object> ask_engine(const fs::path& program, const std::vector<std::string>& arguments,
                                Millis limit);

}  // namespace gezel::cli
