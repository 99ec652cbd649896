// With a daemon the deletion is its job, because it may have the model loaded. Without one this program takes
// the daemon's lock for as long as it deletes.
#include <fmt/format.h>

#include <array>
#include <ostream>
#include <thread>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/near_misses.h"
#include "cli/printer.h"
#include "downloads/url.h"
#include "models/store.h"

namespace gezel::cli {
namespace {

constexpr std::array kPositionals{
    Positional{.name = "MODEL", .help = "which model; see `gezel models`", .completes = Completes::model},
};
constexpr std::array kFlags{
    Flag{.name = "--force", .help = "also when it is loaded: running requests fail, it is unloaded first"},
    Flag{.name = "--json", .help = "print what was done as JSON"},
};

// What is there under that id, as far as it can be told from the disk.
struct Doomed {
  std::string id, what;
  Bytes bytes = 0;      // that a deletion frees
  fs::path left_alone;  // a file of somebody else that only loses its registration
};

Result<Doomed> find_doomed(const models::ModelStore& store, const std::string& argument) {
  const std::string id = short_name(argument);
  const auto inventory = store.inventory();
  std::vector<std::string> all;
  for (const auto& model : inventory.installed) {
    all.push_back(model.id);
    if (model.id != id) continue;
    const bool outside = model.source == "external";
    return Doomed{id, "model", outside ? 0 : model.size_bytes, outside ? model.weights : fs::path()};
  }
  for (const auto& model : inventory.unrecognized) {
    all.push_back(model.id);
    if (model.id == id) return Doomed{id, "model that cannot be used", model.bytes, {}};
  }
  for (const auto& model : inventory.incomplete) {
    all.push_back(model.id);
    if (model.id == id) return Doomed{id, "download that stopped", model.bytes, {}};
  }
  return fail(ErrorKind::not_found, "model_not_found",
              fmt::format("There is no model '{}'.{}", argument, did_you_mean(near_misses(all, id, 3))),
              "model");
}

Result<> remove_here(const Environment& env, models::ModelStore& store, const std::string& id) {
  GEZEL_TRY(const service::InstanceLock lock, service::InstanceLock::acquire(env.home));
  return store.remove({.id = id,
                       .in_use_by = {},
                       .wait =
                           [](Millis delay) {
                             std::this_thread::sleep_for(delay);
                             return !Interrupt::raised();
                           },
                       .supplied_by_machine = false});
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  const auto doomed = find_doomed(store, arguments.text("MODEL"));
  if (!doomed) return print_error(env, doomed.error());
  if (service::find_daemon(env.home)) {
    const auto client = DaemonClient::connect(env);
    if (!client) return print_error(env, client.error());
    const auto removed = client->remove(fmt::format("/api/{}/models/{}{}", kLocalProvider,
                                                    downloads::percent_encoded(doomed->id),
                                                    arguments.has("--force") ? "?force=1" : ""));
    if (!removed) return print_error(env, removed.error());
  } else if (const auto removed = remove_here(env, store, doomed->id); !removed) {
    return print_error(env, removed.error());
  }
  if (arguments.has("--json")) {
    json::object out{{"removed", fmt::format("{}:{}", kLocalProvider, doomed->id)},
                     {"bytes_freed", doomed->bytes}};
    if (!doomed->left_alone.empty()) out["left_alone"] = doomed->left_alone.string();
    *env.out << to_json(out) << '\n' << std::flush;
  } else if (!doomed->left_alone.empty()) {
    print_note(env, terminal_text(fmt::format("{} is no longer registered; its file {} was not touched",
                                              doomed->id, doomed->left_alone.string())));
  } else {
    print_note(env,
               fmt::format("deleted the {} {} ({})", doomed->what, doomed->id, format_bytes(doomed->bytes)));
  }
  return kOk;
}

}  // namespace

constexpr Command kRm{.name = "rm",
                      .summary = "delete a model",
                      .description =
                          "Deletes the files of a model that was downloaded, copied or moved into the store, "
                          "and what a stopped download "
                          "left. A model that was imported by reference only loses its registration: its "
                          "file belongs to somebody else and "
                          "stays. Works with or without a running daemon.",
                      .examples =
                          "gezel rm qwen3.5-2b-q4  # free its disk space\n"
                          "gezel rm qwen3.5-2b-q4 --force  # even while it is loaded",
                      .positionals = kPositionals,
                      .flags = kFlags,
                      .run = run};

}  // namespace gezel::cli
