// Reads the store and nothing else, so that it needs no daemon and no lock: a model that is replaced
// meanwhile is noticed by its files.
#include <fmt/format.h>

#include <array>
#include <ostream>

#include "cli/bundle_file.h"
#include "cli/command.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "models/bundle_export.h"
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

Result<fs::path> export_model(const Environment& env, const Arguments& arguments, StatusLine& status) {
  const models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  GEZEL_TRY(const std::string qualified, resolve_model(arguments.text("MODEL"), stored_models(env)));
  GEZEL_TRY(auto model, store.find(short_name(qualified), hashing_shown(status)));
  const catalog::Catalog catalog(service::catalog_options(env.home, env.installs));
  std::error_code error;
  fs::path target = arguments.text("--output");
  if (target.empty()) target = models::bundle_file_name(model.id);
  target = fs::absolute(target, error).lexically_normal();
  if (fs::exists(fs::symlink_status(target, error))) {
    return fail(
        ErrorKind::conflict, "file_exists",
        fmt::format("{} is there already; move it away, or name another file with --output", target.string()),
        "output");
  }
  GEZEL_CHECK(write_bundle(env, std::move(model), catalog, target, status));
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
