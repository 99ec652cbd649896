#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <ostream>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_lists.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "engine_llama/measured_speed.h"
#include "models/store.h"

namespace gezel::cli {
namespace {

constexpr std::array kFlags{
    Flag{.name = "--available",
         .help = "what can be installed with `gezel pull`, the best for this machine first"},
    Flag{.name = "--discovered",
         .help = "what other programs have on this machine; `gezel run` takes their names"},
    Flag{.name = "--json", .help = "print JSON"},
};

struct Row {
  std::string id, name, state, quantization, architecture, source, installed_at;
  Bytes size_bytes = 0;
  std::int64_t context_window = 0;
  std::optional<engine_llama::MeasuredSpeed> speed;
};

// Of a loaded model.
struct Live {
  std::string state;
  double decode_tps = 0, prefill_tps = 0;  // of what it answered, 0 = unknown
};

// What the daemon adds to the store: loaded models, and models that are not in the store. Empty without a
// daemon.
struct FromDaemon {
  std::map<std::string, Live> loaded;
  std::vector<Row> others;
};

Result<FromDaemon> ask_daemon(const Environment& env) {
  FromDaemon out;
  if (!service::find_daemon(env.home)) return out;
  GEZEL_TRY(const DaemonClient client, DaemonClient::connect(env));
  GEZEL_TRY(const json::value running, client.get("/api/ps"));
  if (const json::array* models = running.is_object() ? array_at(running.get_object(), "models") : nullptr) {
    for (const json::value& entry : *models) {
      if (!entry.is_object()) continue;
      const json::object& model = entry.get_object();
      out.loaded[string_or(model, "id")] = {.state = string_or(model, "state"),
                                            .decode_tps = number_or(model, "decode_tps", 0),
                                            .prefill_tps = number_or(model, "prefill_tps", 0)};
    }
  }
  GEZEL_TRY(const json::value list, client.get("/v1/models"));
  if (const json::array* data = list.is_object() ? array_at(list.get_object(), "data") : nullptr) {
    for (const json::value& value : *data) {
      if (!value.is_object() || string_or(value.get_object(), "availability") == "downloadable") continue;
      const json::object& entry = value.get_object();
      // Further names of an installed model, and what --discovered lists.
      if (entry.contains("alias_of") || string_or(entry, "id").starts_with("discovered:")) continue;
      out.others.push_back({.id = string_or(entry, "id"),
                            .name = string_or(entry, "name"),
                            .source = string_or(entry, "owned_by"),
                            .context_window = int_or(entry, "context_window", 0)});
    }
  }
  return out;
}

// What calibration measured counts more than what a loaded model happens to have been asked, as in GET
// /v1/models/{id}.
std::optional<engine_llama::MeasuredSpeed> speed_of(
    const std::string& id, const std::map<std::string, engine_llama::MeasuredSpeed>& measured,
    const FromDaemon& daemon) {
  if (const auto known = measured.find(id); known != measured.end()) return known->second;
  const auto live = daemon.loaded.find(id);
  if (live == daemon.loaded.end() || live->second.decode_tps <= 0) return std::nullopt;
  return engine_llama::MeasuredSpeed{.decode_tps = live->second.decode_tps,
                                     .prefill_tps = live->second.prefill_tps};
}

json::value performance_json(const std::optional<engine_llama::MeasuredSpeed>& speed) {
  if (!speed) return nullptr;
  json::object out{{"source", "measured"}, {"decode_tps", speed->decode_tps}};
  if (speed->prefill_tps > 0) out["prefill_tps"] = speed->prefill_tps;
  if (!speed->measured_at.empty()) {  // by calibration
    out["at_depth"] = speed->at_depth;
    out["measured_at"] = speed->measured_at;
  }
  return out;
}

std::string tps_cell(double tps) {
  return tps > 0 ? fmt::format("{:.1f}", tps) : "-";
}

void print_json(const Environment& env, const std::vector<Row>& rows,
                const std::vector<models::UnrecognizedModel>& bad) {
  json::array list, unrecognized;
  for (const Row& row : rows) {
    list.push_back({{"id", row.id},
                    {"name", row.name},
                    {"state", row.state},
                    {"size_bytes", row.size_bytes},
                    {"quantization", row.quantization},
                    {"architecture", row.architecture},
                    {"context_window", row.context_window},
                    {"source", row.source},
                    {"installed_at", row.installed_at},
                    {"performance", performance_json(row.speed)}});
  }
  for (const auto& model : bad) {
    unrecognized.push_back({{"id", model.id}, {"reason", model.reason}, {"bytes", model.bytes}});
  }
  *env.out << to_json(json::object{{"models", std::move(list)}, {"unrecognized", std::move(unrecognized)}})
           << '\n';
}

int run(Environment& env, const Arguments& arguments) {
  if (arguments.has("--available")) return print_available(env, arguments.has("--json"));
  if (arguments.has("--discovered")) return print_discovered(env, arguments.has("--json"));
  const Interrupt interrupt;
  const models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  const models::Inventory inventory = store.inventory();
  auto daemon = ask_daemon(env);
  if (!daemon && daemon.error().code == kCodeInterrupted) return print_error(env, daemon.error());
  // The list is still right without a daemon that does not answer; only what is loaded is then unknown.
  if (!daemon) print_note(env, fmt::format("what is loaded is unknown: {}", daemon.error().message));
  const FromDaemon extra = daemon.value_or(FromDaemon{});

  std::vector<Row> rows;
  for (const auto& model : inventory.installed) {
    rows.push_back({.id = fmt::format("{}:{}", kLocalProvider, model.id),
                    .name = model.name,
                    .quantization = model.quantization,
                    .architecture = model.architecture,
                    .source = model.read_only ? "machine" : model.source,
                    .installed_at = model.installed_at,
                    .size_bytes = model.size_bytes,
                    .context_window = model.context_window});
  }
  for (const Row& other : extra.others) {
    const bool known =
        std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.id == other.id; });
    if (!known) rows.push_back(other);
  }
  const auto measured = engine_llama::measured_speeds(env.home);
  for (Row& row : rows) {
    const auto loaded = extra.loaded.find(row.id);
    row.state = loaded == extra.loaded.end() ? "stopped" : loaded->second.state;
    row.speed = speed_of(row.id, measured, extra);
  }
  if (arguments.has("--json")) {
    print_json(env, rows, inventory.unrecognized);
    return kOk;
  }
  if (rows.empty()) {
    print_note(
        env,
        fmt::format(
            "no models in {}; `gezel models --available` lists what `gezel pull` can install, and `gezel "
            "import FILE.gguf` adds a file",
            store.root().string()));
  } else {
    std::vector<std::vector<std::string>> cells;
    for (const Row& row : rows) {
      cells.push_back(
          {short_name(row.id), row.size_bytes > 0 ? format_bytes(row.size_bytes) : "-",
           row.quantization.empty() ? "-" : row.quantization,
           row.context_window > 0 ? group_digits(row.context_window) : "-",
           tps_cell(row.speed ? row.speed->decode_tps : 0), tps_cell(row.speed ? row.speed->prefill_tps : 0),
           row.source.empty() ? "-" : row.source, row.state == "stopped" ? "-" : row.state, row.name});
    }
    *env.out << render_table({{"MODEL"},
                              {"SIZE", Align::right},
                              {"QUANT"},
                              {"CONTEXT", Align::right},
                              {"TOK/S", Align::right},
                              {"PREFILL TOK/S", Align::right},
                              {"SOURCE"},
                              {"STATE"},
                              {"NAME"}},
                             cells);
  }
  for (const auto& model : inventory.unrecognized) {
    *env.err << paint(Tone::yellow, "cannot be used:", color_err(env)) << ' '
             << terminal_text(fmt::format("{} ({}): {}", model.id, format_bytes(model.bytes), model.reason))
             << '\n';
  }
  *env.out << std::flush;
  return kOk;
}

}  // namespace

constexpr Command kModels{
    .name = "models",
    .summary = "list models: installed, available, or of other programs",
    .description =
        "Works with or without a running daemon; with one it also says what is loaded. TOK/S and PREFILL "
        "TOK/S are what a model was measured to write and to read on this machine, at the depth of its usual "
        "conversation; `gezel tune` measures.",
    .examples =
        "gezel models  # a table of what is installed\n"
        "gezel models --available  # what can be pulled, rated for this machine\n"
        "gezel models --discovered  # models of Ollama, LM Studio and others on this machine\n"
        "gezel models --json | jq -r '.models[].id'  # ids for a script",
    .positionals = {},
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
