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

// Where models come from, and where other programs keep theirs.
gezel::service::InstallSettings install_settings() {
  using namespace gezel;
  const auto proxy = variable("HTTPS_PROXY");
  service::InstallSettings out{
      .hub = variable("HF_ENDPOINT"),
      .hub_token = variable("HF_TOKEN"),
      .mirrors = service::read_address_list(variable("GEZEL_HUB_MIRRORS")),
      .proxy = proxy.empty() ? variable("https_proxy") : proxy,
      .catalog_override = variable("GEZEL_GILDE_DATA_DIR"),
      .ignore_catalog_floors = !variable("GEZEL_IGNORE_MIN_GEZEL_VERSION").empty(),
      .machine = models::machine_store(variable("GEZEL_SHARED_ASSETS_DIR"), variable("GEZEL_SYSTEM_SCOPE")),
      .discovery = variable("GEZEL_DISCOVERY") != "off"};
#if defined(__APPLE__)
  constexpr auto kSystem = models::RootSystem::macos;
#else
  constexpr auto kSystem = models::RootSystem::linux;
#endif
  const std::string set = variable("HOME");
  const std::string user = set.empty() ? service::user_folder().value_or("") : set;
  // Without a home of the user there is nothing of theirs to find but what they name.
  if (!user.empty()) {
    out.discovery_roots = models::discovery_roots(
        [](std::string_view name) { return variable(std::string(name).c_str()); }, user, kSystem, {});
  }
  return out;
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
  env.ambient_quiet_ms = variable("GEZEL_AMBIENT_QUIET_MS");
  env.capacity_budget_gb = variable("GEZEL_CAPACITY_BUDGET_GB");
  env.model_dirs = variable("GEZEL_MODEL_DIRS");
  env.kv_mode = variable("GEZEL_KV_MODE");
  env.kv_verify = variable("GEZEL_KV_VERIFY");
  env.good_neighbour = variable("GEZEL_GOOD_NEIGHBOUR");
  env.neighbour_trial = variable("GEZEL_NEIGHBOUR_TRIAL");
  env.calibration = variable("GEZEL_CALIBRATION");
  env.speculation = variable("GEZEL_SPECULATION");
  env.draft_model = variable("GEZEL_DRAFT_MODEL");
  env.force_behaviors = variable("GEZEL_FORCE_BEHAVIORS");
  env.remove_behaviors = variable("GEZEL_REMOVE_BEHAVIORS");
  env.gpu = service::read_gpu_settings(
      [](std::string_view name) { return variable(std::string(name).c_str()); }, env.ignored_variables);
  env.installs = install_settings();
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
