// `gezel tune`: has the daemon measure a model, shows how far it is, and prints what came of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <thread>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "downloads/url.h"

namespace gezel::cli {
namespace {

constexpr Millis kAskEvery{200};
constexpr Millis kLoadLimit{600'000};  // the model is loaded first
constexpr std::size_t kBarCells = 30;

constexpr std::array kPositionals{Positional{
    .name = "MODEL", .help = "the model to measure", .required = false, .completes = Completes::model}};
constexpr std::array kFlags{
    Flag{.name = "--list", .help = "show what was measured so far, of all models; measures nothing"},
    Flag{.name = "--json", .help = "print what the daemon says as JSON"}};

std::string speed(const json::object& object, std::string_view name) {
  const double value = number_or(object, name, 0);
  return value > 0 ? fmt::format("{:.1f}", value) : "-";
}

// One row for each setting that was measured.
std::vector<std::vector<std::string>> rows_of(const json::object& tuned) {
  std::vector<std::vector<std::string>> rows;
  const auto* candidates = array_at(tuned, "candidates");
  if (candidates == nullptr) return rows;
  for (const json::value& value : *candidates) {
    if (!value.is_object()) continue;
    const auto& one = value.get_object();
    const auto bytes = static_cast<Bytes>(std::max<std::int64_t>(0, int_or(one, "memory_bytes", 0)));
    rows.push_back({short_name(string_or(tuned, "model")),
                    bool_or(one, "flash_attention", false) ? "on" : "off",
                    terminal_text(string_or(one, "kv_type")), std::to_string(int_or(one, "threads", 0)),
                    speed(one, "decode_tps"), speed(one, "prefill_tps"),
                    bytes > 0 ? format_bytes(bytes) : "-", bool_or(one, "chosen", false) ? "chosen" : ""});
  }
  return rows;
}

void print_rows(const Environment& env, const std::vector<std::vector<std::string>>& rows) {
  *env.out << render_table({{"MODEL"},
                            {"FLASH ATTENTION"},
                            {"CACHE"},
                            {"THREADS", Align::right},
                            {"DECODE TOK/S", Align::right},
                            {"PREFILL TOK/S", Align::right},
                            {"MEMORY", Align::right},
                            {""}},
                           rows)
           << std::flush;
}

std::string bar(double part) {
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * kBarCells + 0.5);
  std::string out;
  for (std::size_t i = 0; i < kBarCells; ++i) out += i < full ? "█" : "░";
  return out;
}

// Returns what was measured, once all is.
Result<json::object> wait_until_measured(const Environment& env, const DaemonClient& client,
                                         const std::string& model) {
  StatusLine line(env);
  const std::string target = "/api/tune?model=" + downloads::percent_encoded(model);
  while (true) {
    if (Interrupt::raised()) return fail(ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted");
    GEZEL_TRY(const json::value reply, client.get(target));
    if (!reply.is_object())
      return fail(ErrorKind::corrupt, std::string(kCodeBadReply), "The daemon's answer is no JSON object");
    const auto& tuned = reply.get_object();
    const auto state = string_or(tuned, "state");
    if (bool_or(tuned, "complete", false) || (state != "waiting" && state != "measuring")) return tuned;
    line.show(fmt::format("measuring {} {:3.0f} % {}", bar(number_or(tuned, "progress", 0)),
                          100 * number_or(tuned, "progress", 0),
                          state != "waiting"                      ? ""
                          : bool_or(tuned, "machine_busy", false) ? "waiting for other programs"
                                                                  : "waiting until nobody is served"));
    std::this_thread::sleep_for(kAskEvery);
  }
}

int print_list(Environment& env, bool as_json) {
  const auto client = DaemonClient::connect_or_start(env);
  if (!client) return print_error(env, client.error());
  const auto reply = client->get("/api/tune");
  if (!reply) return print_error(env, reply.error());
  if (as_json) {
    *env.out << to_json(*reply) << '\n' << std::flush;
    return kOk;
  }
  std::vector<std::vector<std::string>> rows;
  if (const auto* models = reply->is_object() ? array_at(reply->get_object(), "models") : nullptr) {
    for (const json::value& model : *models) {
      if (!model.is_object()) continue;
      for (auto& row : rows_of(model.get_object())) rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) {
    print_note(env, "nothing was measured yet; models are measured while they are loaded and idle");
    return kOk;
  }
  print_rows(env, rows);
  return kOk;
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  if (arguments.has("--list")) return print_list(env, arguments.has("--json"));
  const auto opened = open_model(env, arguments.text("MODEL"));
  if (!opened) return print_error(env, opened.error());
  const auto begun = opened->client.post("/api/tune", {{"model", opened->model}}, kLoadLimit);
  if (!begun) return print_error(env, begun.error());
  const auto tuned = wait_until_measured(env, opened->client, opened->model);
  if (!tuned) return print_error(env, tuned.error());
  if (arguments.has("--json")) {
    *env.out << to_json(*tuned) << '\n' << std::flush;
    return kOk;
  }
  const auto rows = rows_of(*tuned);
  if (rows.empty() || string_or(*tuned, "source") != "measured") {
    print_note(env, "nothing could be measured; the log says why");
    return kFailure;
  }
  print_rows(env, rows);
  print_note(env, fmt::format("speeds at a depth of {:.0f} tokens", number_or(*tuned, "at_depth", 0)));
  if (!bool_or(*tuned, "undisturbed", true))
    print_note(env, "other programs were using the processors; measure again when they are quiet");
  return kOk;
}

}  // namespace

constexpr Command kTune{
    .name = "tune",
    .summary = "measure which settings a model is fastest with here",
    .description =
        "Models are measured while they are loaded and idle, and loaded again with what was best. This does "
        "it now. Requests that come meanwhile are served first. What you set yourself stays.",
    .examples =
        "gezel tune gemma3-270m  # some seconds, then a table\n"
        "gezel tune --list  # what was measured so far",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
