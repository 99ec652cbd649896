// With a daemon the import is its job, because it owns the store. Without one this program takes the daemon's
// lock for as long as it writes, so that two writers never meet.
#include <fmt/format.h>

#include <array>
#include <ostream>

#include "cli/bundle_import.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "engine/quarantine.h"
#include "models/store.h"

namespace gezel::cli {
namespace {

constexpr std::array kPositionals{
    Positional{.name = "FILE",
               .help = "a .gguf file, any part of a split one, or a .gezmodel file of `gezel export`",
               .completes = Completes::file},
};
constexpr std::array kFlags{
    Flag{.name = "--id",
         .kind = Flag::Kind::text,
         .value = "ID",
         .help = "what to call it in commands and requests (unset: local- and the file's name)"},
    Flag{.name = "--name",
         .kind = Flag::Kind::text,
         .value = "NAME",
         .help = "its name in lists (unset: what the file says)"},
    Flag{.name = "--mode",
         .kind = Flag::Kind::text,
         .help = "reference: the file stays where it is (default); link: hard link into the store; copy or "
                 "move: into the store",
         .choices = "reference|link|copy|move",
         .completes = Completes::choice},
    Flag{.name = "--replace", .help = "of a .gezmodel file: replace the model that has its id"},
    Flag{.name = "--dry-run", .help = "of a .gezmodel file: check it and say what is in it, no more"},
    Flag{.name = "--json", .help = "print what was imported as JSON"},
};

json::object describe(const models::InstalledModel& model) {
  return {{"id", fmt::format("{}:{}", kLocalProvider, model.id)},
          {"name", model.name},
          {"size_bytes", model.size_bytes},
          {"quantization", model.quantization},
          {"architecture", model.architecture},
          {"context_window", model.context_window},
          {"source", model.source}};
}

Result<json::object> import_by_daemon(const Environment& env, const DaemonClient& client,
                                      const models::ImportRequest& request) {
  StatusLine status(env);
  json::object body{{"path", request.path}, {"mode", request.mode}};
  if (!request.id.empty()) body["id"] = request.id;
  if (!request.name.empty()) body["name"] = request.name;
  // Copying and hashing a large file takes minutes without a word, so there is no limit on silence.
  const auto on_wait = [&](Millis waited) {
    if (waited > Millis(400)) status.show(fmt::format("importing … {} s", waited.count() / 1'000));
  };
  GEZEL_TRY(const json::value reply, client.post("/api/models/import", body, Millis(0), on_wait));
  if (!reply.is_object()) {
    return fail(ErrorKind::corrupt, std::string(kCodeBadReply), "The daemon did not say what it imported");
  }
  const json::object* model = object_at(reply.get_object(), "model");
  return model != nullptr ? *model : reply.get_object();
}

// Stops at Ctrl-C; shows how far it is.
auto progress_of(StatusLine& status, std::string_view what, Bytes total) {
  return [&status, what, total](Bytes bytes) {
    status.show(total > 0 ? fmt::format("{} … {} of {}", what, format_bytes(bytes), format_bytes(total))
                          : fmt::format("{} … {}", what, format_bytes(bytes)));
    return !Interrupt::raised();
  };
}

Result<json::object> import_here(const Environment& env, const models::ImportRequest& request) {
  GEZEL_TRY(const service::InstanceLock lock, service::InstanceLock::acquire(env.home));
  models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  StatusLine status(env);
  std::error_code error;
  const Bytes total = fs::file_size(request.path, error);
  auto imported = store.import(request, progress_of(status, "importing", error ? 0 : total));
  if (!imported) {
    if (Interrupt::raised()) return fail(ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted");
    return std::unexpected(std::move(imported).error());
  }
  // An import is a fresh start, even of the same file.
  engine::Quarantine quarantine(engine::quarantine_folder(env.home), *env.clock);
  if (const auto lifted = quarantine.clear(fmt::format("{}:{}", kLocalProvider, imported->id)); !lifted)
    print_note(env, fmt::format("a quarantine of the model could not be lifted: {}", lifted.error().message));
  // Every import records digests; without a daemon nobody else will do it later.
  if (store.check(*imported) != models::Integrity::unchanged) {
    if (auto verified =
            store.verify(*imported, progress_of(status, "computing SHA-256", imported->size_bytes));
        !verified) {
      status.clear();
      if (!Interrupt::raised()) return std::unexpected(std::move(verified).error());
      print_note(env, "the model is imported; its SHA-256 is computed later, by the daemon");
    }
  }
  return describe(*imported);
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  std::error_code error;
  const models::ImportRequest request{
      .path = fs::absolute(arguments.text("FILE"), error).lexically_normal().string(),
      .mode = arguments.text("--mode", "reference"),
      .id = arguments.text("--id"),
      .name = arguments.text("--name")};
  // The daemon would refuse it too, but it cannot know which folder a relative path was meant from.
  if (!fs::exists(request.path, error)) {
    return print_error(env,
                       {ErrorKind::not_found, "file_not_found",
                        fmt::format("There is no file {}. FILE must be a .gguf file", request.path), "path"});
  }
  if (is_bundle(request.path)) return import_bundle(env, arguments, request.path);
  for (const std::string_view flag : {"--replace", "--dry-run"}) {
    if (arguments.has(flag)) {
      return print_error(env, {ErrorKind::invalid, std::string(kCodeUsage),
                               fmt::format("{} is for .gezmodel files", flag), std::string(flag)});
    }
  }
  Result<json::object> imported;
  if (service::find_daemon(env.home)) {
    const auto client = DaemonClient::connect(env);
    if (!client) return print_error(env, client.error());
    imported = import_by_daemon(env, *client, request);
  } else {
    imported = import_here(env, request);
  }
  if (!imported) return print_error(env, imported.error());
  if (arguments.has("--json")) {
    *env.out << to_json(*imported) << '\n' << std::flush;
    return kOk;
  }
  const std::string id = short_name(string_or(*imported, "id"));
  *env.out << id << '\n' << std::flush;
  print_note(env, fmt::format("imported; ask it with: gezel run {} \"Hello\"", id));
  return kOk;
}

}  // namespace

constexpr Command kImport{
    .name = "import",
    .summary = "make a model file on this machine usable",
    .description =
        "Registers a GGUF file as a model, or takes in a .gezmodel file, whose every byte is checked first. "
        "By default nothing is copied: the file stays where it is and must "
        "stay there. Works "
        "with or without a running daemon. Its SHA-256 is recorded, so that a damaged file is noticed later.",
    .examples =
        "gezel import ~/Downloads/qwen3-0.6b-q8_0.gguf  # use it from where it is\n"
        "gezel import model.gguf --id notes --mode copy  # a copy in the store, under a short name\n"
        "gezel import big-00001-of-00003.gguf  # a split model: any of its parts\n"
        "gezel import notes.gezmodel --dry-run  # what is in a bundle",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
