// Works on the home's files, with or without a daemon: it reads them anew at every start of an engine.
#include <fmt/format.h>

#include <array>
#include <ostream>

#include "cli/command.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "engine/quarantine.h"

namespace gezel::cli {
namespace {

constexpr std::array kPositionals{
    Positional{.name = "ACTION",
               .help = "list (unset: this) or clear",
               .required = false,
               .completes = Completes::choice,
               .choices = "list|clear"},
    Positional{.name = "MODEL",
               .help = "clear: this model only; without it everything, also the engine's build",
               .required = false,
               .completes = Completes::model},
};
constexpr std::array kFlags{Flag{.name = "--json", .help = "print JSON"}};

int list(const Environment& env, const engine::Quarantine& quarantine, bool as_json) {
  const auto entries = quarantine.entries();
  if (as_json) {
    json::array out;
    for (const auto& entry : entries) out.push_back(engine::quarantine_json(entry));
    *env.out << to_json(json::object{{"quarantined", std::move(out)}}) << '\n' << std::flush;
    return kOk;
  }
  if (entries.empty()) {
    print_note(env, "nothing is quarantined");
    return kOk;
  }
  std::vector<std::vector<std::string>> cells;
  for (const auto& entry : entries) {
    cells.push_back({entry.model_id.empty() ? "(every model)" : terminal_text(short_name(entry.model_id)),
                     terminal_text(entry.at), terminal_text(entry.reason)});
  }
  *env.out << render_table({{"MODEL"}, {"SINCE"}, {"REASON"}}, cells) << std::flush;
  return kOk;
}

int clear(const Environment& env, engine::Quarantine& quarantine, const std::string& model, bool as_json) {
  auto lifted = quarantine.clear(model);
  if (lifted && *lifted == 0 && !model.empty())
    lifted = quarantine.clear(fmt::format("{}:{}", kLocalProvider, model));
  if (!lifted) return print_error(env, lifted.error());
  if (*lifted == 0 && !model.empty()) {
    return print_error(
        env, {ErrorKind::not_found, "not_quarantined",
              fmt::format("'{}' is not quarantined; `gezel quarantine` lists what is", model), "MODEL"});
  }
  if (as_json) {
    *env.out << to_json(json::object{{"cleared", *lifted}}) << '\n' << std::flush;
  } else {
    print_note(env, *lifted == 0 ? "nothing is quarantined"
                                 : fmt::format("{} lifted; the next request tries again",
                                               *lifted == 1 ? "1 quarantine is"
                                                            : fmt::format("{} quarantines are", *lifted)));
  }
  return kOk;
}

int run(Environment& env, const Arguments& arguments) {
  engine::Quarantine quarantine(engine::quarantine_folder(env.home), *env.clock);
  const bool as_json = arguments.has("--json");
  if (arguments.text("ACTION") == "clear") return clear(env, quarantine, arguments.text("MODEL"), as_json);
  if (arguments.has("MODEL")) {
    return print_error(env,
                       {ErrorKind::invalid, std::string(kCodeUsage),
                        "MODEL belongs to `gezel quarantine clear MODEL`; the list has every model", ""});
  }
  return list(env, quarantine, as_json);
}

}  // namespace

constexpr Command kQuarantine{
    .name = "quarantine",
    .summary = "list or lift what keeps crashing and is not started any more",
    .description =
        "A model that ends the engine three times is not started any more, nor is a build of the engine that "
        "cannot run here. Importing the model again lifts it too. Works with or without a running daemon.",
    .examples =
        "gezel quarantine  # what is out, since when and why\n"
        "gezel quarantine clear gemma3-270m  # try this model again\n"
        "gezel quarantine clear  # try everything again",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
