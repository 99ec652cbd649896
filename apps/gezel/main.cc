// The gezel program: reads the environment once and hands it to the command line.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "cli/console.h"
#include "cli/run_cli.h"
#include "http/daemon.h"
#include "service/os.h"
#include "service/runtime_files.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace gezel;
  const SystemClock clock;
  SystemEntropy entropy;
  cli::Environment env;
  env.version = GEZEL_VERSION;
  if (auto home =
          service::default_home(std::getenv("GEZEL_HOME"), std::getenv("HOME"), service::user_folder())) {
    env.home = std::move(*home);
  } else {
    env.home_error = std::move(home).error();
  }
  env.port = variable("GEZEL_PORT");
  env.target_itl_ms = variable("GEZEL_TARGET_ITL_MS");
  env.capacity_budget_gb = variable("GEZEL_CAPACITY_BUDGET_GB");
  env.force_behaviors = variable("GEZEL_FORCE_BEHAVIORS");
  env.remove_behaviors = variable("GEZEL_REMOVE_BEHAVIORS");
  env.shutdown_on_stdin_eof = variable("GEZEL_SHUTDOWN_ON_STDIN_EOF") == "1";
  env.executable = cli::executable_path();
  env.engine = variable("GEZEL_ENGINE");
  env.out = &std::cout;
  env.err = &std::cerr;
  env.input = STDIN_FILENO;
  env.input_is_terminal = cli::is_terminal(STDIN_FILENO);
  env.out_is_terminal = cli::is_terminal(STDOUT_FILENO);
  env.err_is_terminal = cli::is_terminal(STDERR_FILENO);
  env.no_color = !variable("NO_COLOR").empty() || variable("TERM") == "dumb";
  env.columns = cli::terminal_columns(STDERR_FILENO);
  env.clock = &clock;
  env.entropy = &entropy;
  env.serve = http::run_daemon;
  const int code = cli::run_cli({argv + 1, argv + argc}, env);
  // What did not arrive (a full disk, a closed pipe) must not look like success.
  if (std::cout.flush() || code != 0) return code;
  std::cerr << "error: the output could not be written\n";
  return 1;
}
