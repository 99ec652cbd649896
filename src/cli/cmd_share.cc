// `gezel share`: a user's private copy becomes one of the machine (spec 60 section 18, its end). Run as the
// machine's service, whose store it goes into: the copy is exported, looked at and confirmed there like any
// other bundle, and only then removed where it was.
#include <fmt/format.h>

#include <array>
#include <ostream>

#include "cli/bundle_file.h"
#include "cli/bundle_import.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "models/bundle_export.h"
#include "models/share.h"
#include "models/updates.h"
#include "service/install_parts.h"
#include "service/runtime_files.h"

namespace gezel::cli {
namespace {

constexpr std::string_view kArchivePrefix = "share-";

constexpr std::array kPositionals{
    Positional{.name = "MODEL", .help = "the id of a model of the catalog that is installed in that home"},
};
constexpr std::array kFlags{
    Flag{.name = "--from",
         .kind = Flag::Kind::text,
         .value = "HOME",
         .help = "the home that has it (a user's ~/.gezel); no daemon may run for it",
         .completes = Completes::folder},
    Flag{.name = "--json", .help = "print the model as JSON"},
};

std::unexpected<Error> usage(std::string message, std::string param) {
  return fail(ErrorKind::invalid, std::string(kCodeUsage), std::move(message), std::move(param));
}

std::unexpected<Error> not_shareable(std::string message) {
  return fail(ErrorKind::conflict, "not_shareable", std::move(message), "model");
}

// Whose home it is, as a lock: held until all is done, so that nobody uses, updates or moves the model
// meanwhile.
Result<service::InstanceLock> lock_home(const fs::path& from) {
  auto lock = service::InstanceLock::acquire(from);
  if (lock || lock.error().code != "already_running") return lock;
  return fail(
      ErrorKind::conflict, "already_running",
      fmt::format("a daemon runs for {}, which may be using the model; end it first: gezel stop --home {}",
                  from.string(), from.string()),
      "from");
}

// What the catalog has now of the model, as far as is known without reading it again.
Result<models::Payload> current_payload(const models::InstalledModel& model,
                                        const catalog::Catalog& catalog) {
  if (model.catalog_version.empty())
    return not_shareable(
        fmt::format("\"{}\" was not installed from the catalog, so nothing says what it must be; import it "
                    "there instead: "
                    "gezel import",
                    model.id));
  const auto latest =
      catalog.get(catalog::Kind::chat_model, model.catalog_id.empty() ? model.id : model.catalog_id);
  if (!latest) return not_shareable(fmt::format("\"{}\" is not in the catalog any more", model.id));
  auto payload = models::payload_of(*latest->version, catalog::Backend::llama_cpp);
  if (!payload) return not_shareable(fmt::format("the catalog has no build of \"{}\" any more", model.id));
  const auto drift =
      models::find_drift(models::installed_payload(model), *latest->version, catalog::Backend::llama_cpp);
  if (drift.verdict != models::Drift::Verdict::same)
    return not_shareable(fmt::format("\"{}\" is not what the catalog has now: {}", model.id, drift.reason));
  return std::move(*payload);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    out.push_back(it->path().filename().string());
  return out;
}

// The digests of a review, by the names that the files have in the store.
std::map<std::string, std::string> digests_of(const json::object& review) {
  constexpr std::string_view kFolder = "model/";
  std::map<std::string, std::string> out;
  const auto* files = array_at(review, "files");
  for (const auto& value : files != nullptr ? *files : json::array()) {
    const auto* file = value.if_object();
    const std::string path = file != nullptr ? string_or(*file, "path") : "";
    if (path.starts_with(kFolder)) out[path.substr(kFolder.size())] = string_or(*file, "sha256");
  }
  return out;
}

// What a share that was killed left; one that runs is younger.
void remove_leftovers(const fs::path& folder) {
  constexpr auto kLongAgo = std::chrono::hours(24);
  std::error_code error;
  for (const std::string& name : names_in(folder)) {
    const auto written = fs::last_write_time(folder / name, error);
    if (!error && name.starts_with(kArchivePrefix) && fs::file_time_type::clock::now() - written > kLongAgo)
      fs::remove(folder / name, error);
  }
}

// A file that goes with this.
struct Temporary {
  explicit Temporary(fs::path file) : path(std::move(file)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  fs::path path;
};

Result<json::object> share(const Environment& env, const std::string& wanted, const fs::path& from) {
  GEZEL_TRY(const auto lock, lock_home(from));
  models::ModelStore store(from, *env.clock, *env.entropy, kLocalProvider);
  std::vector<std::string> known;
  for (const auto& model : store.inventory().installed)
    known.push_back(fmt::format("{}:{}", kLocalProvider, model.id));
  GEZEL_TRY(const std::string qualified, resolve_model(wanted, known));
  const std::string id = short_name(qualified);
  StatusLine status(env);
  GEZEL_TRY(const auto model, store.find(id, hashing_shown(status)));
  const catalog::Catalog catalog(service::catalog_options(env.home, env.installs));
  GEZEL_TRY(const auto payload, current_payload(model, catalog));

  const fs::path folder = env.home / ".transactions";
  GEZEL_CHECK(make_private_folder(folder));
  remove_leftovers(folder);
  const Temporary archive(folder / fmt::format("{}{}.gezmodel", kArchivePrefix, new_uuid(*env.entropy)));
  GEZEL_CHECK(write_bundle(env, model, catalog, archive.path, status));
  status.clear();
  GEZEL_TRY(
      auto shared,
      take_bundle(env, {.path = archive.path.string(), .agree = [&](const json::object& review) {
                          return models::check_shareable(
                              {.id = id, .sha256 = digests_of(review), .folder = names_in(store.root() / id)},
                              payload);
                        }}));
  if (const auto removed = store.remove({.id = id}); !removed)
    print_note(
        env, terminal_text(fmt::format("the copy in {} stays: {}", from.string(), removed.error().message)));
  return shared;
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  std::error_code error;
  const fs::path from = fs::absolute(arguments.text("--from"), error).lexically_normal();
  Result<json::object> shared;
  if (!env.installs.machine.own) {
    shared = usage(
        "this is for the machine's service: set GEZEL_SHARED_ASSETS_DIR, GEZEL_SYSTEM_SCOPE=1 and GEZEL_HOME "
        "as "
        "it has them",
        "GEZEL_SYSTEM_SCOPE");
  } else if (!arguments.has("--from") || !fs::is_directory(from, error)) {
    shared = usage("--from must be the home that has the model: a folder that is there", "--from");
  } else if (fs::equivalent(from, env.home, error)) {
    shared =
        usage("--from is the service's own home; models of it move by themselves when the service starts",
              "--from");
  } else {
    shared = share(env, arguments.text("MODEL"), from);
  }
  if (!shared && Interrupt::raised())
    shared = fail(ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted");
  if (!shared) {
    if (shared.error().code == "model_exists")
      shared.error().message = "The machine has a model with this id already; nothing was changed";
    return print_error(env, shared.error());
  }
  if (arguments.has("--json")) {
    *env.out << to_json(*shared) << '\n' << std::flush;
    return kOk;
  }
  *env.out << short_name(string_or(*shared, "id")) << '\n' << std::flush;
  print_note(env, "it is everybody's on this machine now");
  return kOk;
}

}  // namespace

constexpr Command kShare{
    .name = "share",
    .summary = "give a private model to everybody on this machine",
    .description =
        "Moves a model of the catalog out of somebody's home into the store of the machine's service, which "
        "runs it: with GEZEL_SHARED_ASSETS_DIR, GEZEL_SYSTEM_SCOPE=1 and GEZEL_HOME as that service has "
        "them, "
        "running or not. Only what the catalog has now is taken, and every byte of it is checked.",
    .examples = "gezel share qwen3.5-2b-q4 --from /home/ada/.gezel  # as the user of the machine's service",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
