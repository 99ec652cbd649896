// cli/environment.h
//
// Everything the command line touches outside itself, given by main(): nothing below it reads environment
// variables, the clock or a standard stream on its own. Tests pass string streams and a home of their own.
#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "http/daemon.h"

namespace gezel::cli {

namespace fs = std::filesystem;

struct Environment {
  std::string version;
  fs::path home;                    // GEZEL_HOME, else ~/.gezel; `--home` replaces it
  std::optional<Error> home_error;  // why there is none
  std::string port;                 // GEZEL_PORT as written, "" = unset; read by `serve` only
  std::string ambient_quiet_ms;     // GEZEL_AMBIENT_QUIET_MS as written, "" = unset; read by `serve` only
  std::string target_itl_ms;        // GEZEL_TARGET_ITL_MS as written, "" = unset; read by `serve` only
  std::string kv_mode;              // GEZEL_KV_MODE as written; read by `serve` only
  std::string kv_verify;            // GEZEL_KV_VERIFY as written; read by `serve` only
  std::string model_dirs;           // GEZEL_MODEL_DIRS as written; read by `serve` only
  std::string capacity_budget_gb;   // GEZEL_CAPACITY_BUDGET_GB as written; read by `serve` only
  // GEZEL_GOOD_NEIGHBOUR and, for tests, GEZEL_NEIGHBOUR_TRIAL as written; read by `serve` only
  std::string good_neighbour, neighbour_trial;
  std::string calibration;  // GEZEL_CALIBRATION as written; read by `serve` only
  std::string speculation;  // GEZEL_SPECULATION as written; read by `serve` only
  std::string draft_model;  // GEZEL_DRAFT_MODEL as written, "" = unset; read by `serve` only
  // GEZEL_FORCE_BEHAVIORS and GEZEL_REMOVE_BEHAVIORS as written; read by `serve` only
  std::string force_behaviors, remove_behaviors;
  service::GpuSettings gpu;                    // GEZEL_DEVICE_SAFETY_* and the like
  std::vector<std::string> ignored_variables;  // that say nothing usable, and what they may say
  service::InstallSettings installs;           // HF_ENDPOINT, GEZEL_SHARED_ASSETS_DIR and the like
  bool shutdown_on_stdin_eof = false;          // GEZEL_SHUTDOWN_ON_STDIN_EOF=1; read by `serve` only
  fs::path executable;                         // this program, absolute
  fs::path engine;  // GEZEL_ENGINE, empty = beside `executable`; `--engine` replaces it

  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  int input = 0;  // descriptor of standard input
  bool input_is_terminal = false;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool no_color = false;  // NO_COLOR, or TERM=dumb
  int columns = 80;       // width of the terminal

  const Clock* clock = nullptr;
  Entropy* entropy = nullptr;
  // Runs the daemon in this process: http::run_daemon.
  std::function<int(const http::DaemonOptions&)> serve;

  // Where gezel-engine is, whether or not it exists there.
  fs::path engine_program() const {
    return engine.empty() ? executable.parent_path() / "gezel-engine" : engine;
  }
};

}  // namespace gezel::cli
