#include <fmt/format.h>

#include <array>
#include <ostream>
#include <thread>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

constexpr Millis kStopLimit{30'000};

constexpr std::array kPositionals{
    Positional{.name = "MODEL",
               .help = "unload this model; without it the daemon itself ends",
               .required = false,
               .completes = Completes::loaded_model},
};
constexpr std::array kFlags{Flag{.name = "--force", .help = "also when requests are running; they fail"}};

// Unloading asks by id; whether that id exists is known by the daemon. Names are completed from its list
// first, so that a slip gets a suggestion.
Result<> stop_model(const DaemonClient& client, std::string_view argument, bool force) {
  GEZEL_TRY(const std::vector<std::string> known, offered_models(client));
  GEZEL_TRY(const std::string model, resolve_model(argument, known));
  GEZEL_CHECK(client.post("/api/stop", {{"model", model}, {"force", force}}));
  return {};
}

// The daemon is gone when its process is, not when its port is.
Result<> wait_for_end(const Environment& env, int pid) {
  const MonotonicTime begin = env.clock->now();
  while (process_alive(pid) && env.clock->now() - begin < kStopLimit) {
    if (Interrupt::raised()) return fail(ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted");
    std::this_thread::sleep_for(Millis(20));
  }
  if (!process_alive(pid)) return {};
  return fail(ErrorKind::timeout, "stop_timeout",
              fmt::format("The daemon (pid {}) still runs after {} s. End it with `kill -9 {}`", pid,
                          kStopLimit.count() / 1'000, pid));
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const bool whole = !arguments.has("MODEL");
  // Ending what does not run is done already; a script that wants it stopped has what it wants.
  if (whole && !service::find_daemon(env.home)) {
    print_note(env, fmt::format("no daemon runs for {}", env.home.string()));
    return kOk;
  }
  const auto client = DaemonClient::connect(env);
  if (!client) return print_error(env, client.error());
  if (!whole) {
    const auto stopped = stop_model(*client, arguments.text("MODEL"), arguments.has("--force"));
    if (!stopped) return print_error(env, stopped.error());
    print_note(env, fmt::format("{} is unloaded", arguments.text("MODEL")));
    return kOk;
  }
  const auto asked = client->post("/api/stop", {{"force", arguments.has("--force")}});
  // A daemon that ends quickly may close the connection before its answer is out.
  if (!asked && asked.error().code != kCodeLost) return print_error(env, asked.error());
  if (const auto ended = wait_for_end(env, client->address().pid); !ended)
    return print_error(env, ended.error());
  print_note(env, "the daemon has ended");
  return kOk;
}

}  // namespace

constexpr Command kStop{.name = "stop",
                        .summary = "unload a model, or end the daemon",
                        .description = "",
                        .examples =
                            "gezel stop gemma3-270m  # free its memory\n"
                            "gezel stop gemma3-270m --force  # even in the middle of an answer\n"
                            "gezel stop  # end the daemon",
                        .positionals = kPositionals,
                        .flags = kFlags,
                        .run = run};

}  // namespace gezel::cli
