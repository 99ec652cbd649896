#include <fmt/format.h>

#include <array>
#include <ostream>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/doctor.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/table.h"

namespace gezel::cli {
namespace {

constexpr std::array kFlags{Flag{.name = "--json", .help = "print what the daemon says as JSON"}};

std::string span_text(std::int64_t ms) {
  const std::int64_t seconds = ms / 1'000;
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3'600) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h {} min", seconds / 3'600, seconds / 60 % 60);
}

// How many wait, and how many of them in no hurry.
std::string queued_text(const json::object& model) {
  std::int64_t later = 0;
  if (const auto* lanes = object_at(model, "lanes")) {
    for (const char* lane : {"background", "batch"}) {
      if (const auto* load = object_at(*lanes, lane)) later += int_or(*load, "queued", 0);
    }
  }
  const auto queued = int_or(model, "queued", 0);
  return later > 0 ? fmt::format("{} ({} background)", queued, later) : std::to_string(queued);
}

std::vector<std::string> cells(const json::object& model) {
  const std::int64_t slots = int_or(model, "slots", 0);
  const std::int64_t bytes = int_or(model, "bytes", 0), pid = int_or(model, "pid", 0);
  const std::int64_t context = int_or(model, "context", 0);
  const double speed = number_or(model, "decode_tps", 0);
  const bool busy = int_or(model, "slots_busy", 0) > 0;
  return {short_name(string_or(model, "id")),
          string_or(model, "state"),
          pid > 0 ? std::to_string(pid) : "-",
          bytes > 0 ? format_bytes(static_cast<Bytes>(bytes)) : "-",
          slots > 0 ? fmt::format("{}/{}", int_or(model, "slots_busy", 0), slots) : "-",
          context > 0 ? group_digits(context) : "-",
          speed > 0 ? fmt::format("{:.1f}", speed) : "-",
          queued_text(model),
          busy ? "-" : span_text(int_or(model, "idle_ms", 0))};
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const auto client = DaemonClient::connect(env);
  if (!client) return print_error(env, client.error());
  const auto reply = client->get("/api/ps");
  if (!reply) return print_error(env, reply.error());
  if (arguments.has("--json")) {
    *env.out << to_json(*reply) << '\n' << std::flush;
    return kOk;
  }
  std::vector<std::vector<std::string>> rows;
  std::string waits;
  if (const json::array* models = reply->is_object() ? array_at(reply->get_object(), "models") : nullptr) {
    for (const json::value& model : *models) {
      if (!model.is_object()) continue;
      rows.push_back(cells(model.get_object()));
      if (const auto reason = string_or(model.get_object(), "waiting"); !reason.empty())
        waits += fmt::format("{}: {}\n", terminal_text(short_name(string_or(model.get_object(), "id"))),
                             terminal_text(reason));
    }
  }
  if (rows.empty()) {
    print_note(env, "no model is loaded; the next request loads what it needs");
    return kOk;
  }
  *env.out << render_table({{"MODEL"},
                            {"STATE"},
                            {"PID", Align::right},
                            {"MEMORY", Align::right},
                            {"BUSY", Align::right},
                            {"CONTEXT", Align::right},
                            {"TOK/S", Align::right},
                            {"QUEUED", Align::right},
                            {"IDLE", Align::right}},
                           rows)
           << waits << std::flush;
  for (const Finding& finding : judge_neighbour(reply->get_object()))
    if (finding.verdict != Verdict::good) print_note(env, finding.detail);
  return kOk;
}

}  // namespace

constexpr Command kPs{
    .name = "ps",
    .summary = "show the models that are loaded",
    .description =
        "BUSY is requests being answered of those that fit at the same time; CONTEXT is tokens for each. "
        "TOK/S is what one answer gets at the beginning of a conversation; `gezel tune` says more.",
    .examples =
        "gezel ps  # a table\n"
        "gezel ps --json | jq '.models[].bytes'  # memory of each",
    .positionals = {},
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
