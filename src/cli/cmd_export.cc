// Reads the store and nothing else, so that it needs no daemon and no lock: a model that is replaced
// meanwhile is noticed by its files.
#include <fmt/format.h>

#include <array>
#include <ostream>

#include "base/ids.h"
#include "cli/command.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "downloads/partial_file.h"
#include "models/bundle_export.h"
#include "models/disk.h"
#include "models/preflight.h"
#include "models/store.h"
#include "service/install_parts.h"

namespace gezel::cli {
namespace {

constexpr std::array kPositionals{
    Positional{.name = "MODEL", .help = "which model; see `gezel models`", .completes = Completes::model},
};
constexpr std::array kFlags{
    Flag{.name = "-o,--output",
         .kind = Flag::Kind::text,
         .value = "FILE",
         .help = "where to write it (unset: the model's id and .gezmodel, in this folder)",
         .completes = Completes::file},
    Flag{.name = "--json", .help = "print what was written as JSON"},
};

Error interrupted() {
  return {ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted", {}};
}

std::unexpected<Error> taken(const fs::path& target) {
  return fail(
      ErrorKind::conflict, "file_exists",
      fmt::format("{} is there already; move it away, or name another file with --output", target.string()),
      "output");
}

// The archive under a name of its own first, that nobody else has, so that nobody finds half of one.
Result<> write_archive(const Environment& env, models::BundleExport& archive, const fs::path& target,
                       StatusLine& status) {
  const fs::path partial = fmt::format("{}.{}.partial", target.string(), new_uuid(*env.entropy));
  struct Remove {
    const fs::path& path;
    ~Remove() {
      std::error_code error;
      fs::remove(path, error);
    }
  } const leftover{partial};
  GEZEL_TRY(auto file, downloads::PartialFile::open(partial));
  const Bytes total = archive.total_bytes();
  while (true) {
    if (Interrupt::raised()) return std::unexpected(interrupted());
    GEZEL_TRY(const std::string piece, archive.next());
    if (piece.empty()) break;
    GEZEL_CHECK(file.append(piece));
    status.show(fmt::format("writing … {} of {}", format_bytes(file.size()), format_bytes(total)));
  }
  GEZEL_CHECK(file.sync());
  const auto named = models::rename_new(partial, target);
  if (!named && named.error().code == "file_exists") return taken(target);
  return named;
}

Result<fs::path> export_model(const Environment& env, const Arguments& arguments, StatusLine& status) {
  const models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  GEZEL_TRY(const std::string qualified, resolve_model(arguments.text("MODEL"), stored_models(env)));
  const auto go_on = [&](Bytes bytes) {
    status.show(fmt::format("computing SHA-256 … {}", format_bytes(bytes)));
    return !Interrupt::raised();
  };
  GEZEL_TRY(auto model, store.find(short_name(qualified), go_on));
  const catalog::Catalog catalog(service::catalog_options(env.home, env.installs));
  std::error_code error;
  fs::path target = arguments.text("--output");
  if (target.empty()) target = models::bundle_file_name(model.id);
  target = fs::absolute(target, error).lexically_normal();
  if (fs::exists(fs::symlink_status(target, error))) return taken(target);
  const Bytes size = model.size_bytes;
  GEZEL_CHECK(
      models::check_disk(target.filename().string(), size, 0, models::free_space(target.parent_path())));
  auto archive =
      models::BundleExport::prepare(models::export_request(std::move(model), catalog, env.clock->wall_now(),
                                                           fmt::format("gezel-inference/{}", env.version)),
                                    go_on);
  if (!archive && Interrupt::raised()) return std::unexpected(interrupted());
  if (!archive) return std::unexpected(std::move(archive).error());
  GEZEL_CHECK(write_archive(env, *archive, target, status));
  return target;
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  StatusLine status(env);
  const auto written = export_model(env, arguments, status);
  status.clear();
  if (!written) return print_error(env, written.error());
  std::error_code error;
  const Bytes size = fs::file_size(*written, error);
  if (arguments.has("--json")) {
    *env.out << to_json(json::object{{"file", written->string()}, {"size_bytes", size}}) << '\n'
             << std::flush;
    return kOk;
  }
  *env.out << written->string() << '\n' << std::flush;
  print_note(env, fmt::format("{}; on another machine: gezel import {}", format_bytes(size),
                              terminal_text(written->filename().string())));
  return kOk;
}

}  // namespace

constexpr Command kExport{
    .name = "export",
    .summary = "write a model into one file, for another machine",
    .description =
        "Writes a .gezmodel file: the model's files with their digests, its licence, and "
        "what the catalog says of it. `gezel import` takes it in elsewhere. Works with or "
        "without a running daemon; nothing of the model changes.",
    .examples =
        "gezel export qwen3.5-2b-q4  # qwen3.5-2b-q4.gezmodel in this folder\n"
        "gezel export notes -o /media/stick/notes.gezmodel  # somewhere else",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
