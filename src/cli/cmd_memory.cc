// `gezel memory` and `gezel fit`: what /v1/memory and /v1/memory/plan say, as bars.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "downloads/url.h"

namespace gezel::cli {
namespace {

constexpr std::size_t kBarWidth = 50;

constexpr std::array kMemoryFlags{Flag{.name = "--json", .help = "print what the daemon says as JSON"}};
constexpr std::array kFitFlags{Flag{.name = "--ctx",
                                    .kind = Flag::Kind::integer,
                                    .value = "TOKENS",
                                    .help = "the context window to plan for; default: the longest that fits",
                                    .low = 1,
                                    .high = 134'217'728},
                               Flag{.name = "--slots",
                                    .kind = Flag::Kind::integer,
                                    .value = "N",
                                    .help = "how many requests are to be answered at the same time",
                                    .low = 1,
                                    .high = 64},
                               Flag{.name = "--json", .help = "print what the daemon says as JSON"}};
constexpr std::array kFitPositionals{
    Positional{.name = "MODEL", .help = "the model to plan for", .completes = Completes::model}};

Bytes bytes_or_0(const json::object& object, std::string_view name) {
  return static_cast<Bytes>(std::max<std::int64_t>(0, int_or(object, name, 0)));
}

// `share` of `whole` as a bar; anything that is there is at least one cell.
std::string bar(Bytes share, Bytes whole) {
  if (whole == 0 || share == 0) return {};
  const double part = std::min(1.0, static_cast<double>(share) / static_cast<double>(whole));
  const auto cells = std::max<std::size_t>(1, static_cast<std::size_t>(part * kBarWidth + 0.5));
  std::string out;
  for (std::size_t i = 0; i < cells; ++i) out += "█";
  return out;
}

using Rows = std::vector<std::vector<std::string>>;

void add_row(Rows& rows, std::string what, Bytes bytes, Bytes whole) {
  rows.push_back({std::move(what), format_bytes(bytes), bar(bytes, whole)});
}

void print_rows(Environment& env, const Rows& rows) {
  *env.out << render_table({{"WHAT"}, {"BYTES", Align::right}, {""}}, rows) << std::flush;
}

int run_memory(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const auto client = DaemonClient::connect(env);
  if (!client) return print_error(env, client.error());
  const auto reply = client->get("/v1/memory");
  if (!reply) return print_error(env, reply.error());
  if (arguments.has("--json")) {
    *env.out << to_json(*reply) << '\n' << std::flush;
    return kOk;
  }
  if (!reply->is_object()) return kFailure;
  const auto& memory = reply->get_object();
  Rows rows;
  for (const auto& value : memory.at("pools").as_array()) {
    const auto& pool = value.as_object();
    const Bytes total = bytes_or_0(pool, "total");
    add_row(rows, string_or(pool, "kind"), total, total);
    add_row(rows, "  for models", bytes_or_0(pool, "budget"), total);
    add_row(rows, "  kept for everything else", bytes_or_0(pool, "margin"), total);
    add_row(rows, "  free now", bytes_or_0(pool, "free"), total);
    add_row(rows, "  reserved by models", bytes_or_0(pool, "reserved"), total);
    for (const auto& held_value : memory.at("reservations").as_array()) {
      const auto& held = held_value.as_object();
      // What counts, so that the rows add up to what is reserved; its parts are those of the plan.
      const Bytes planned = bytes_or_0(held, "total"), charged = bytes_or_0(held, "charged");
      add_row(rows, "    " + string_or(held, "key"), charged, total);
      for (const auto* part : {"weights", "repack", "kv", "compute", "cache"})
        if (const Bytes bytes = bytes_or_0(held, part))
          add_row(rows, fmt::format("      {}", part), bytes, total);
      if (charged > planned) add_row(rows, "      more than planned", charged - planned, total);
      if (charged < planned)
        rows.push_back({"      less than planned", "-" + format_bytes(planned - charged), {}});
      if (const Bytes measured = bytes_or_0(held, "measured"))
        add_row(rows, "      measured", measured, total);
    }
  }
  print_rows(env, rows);
  return kOk;
}

// The header of a model that is not here may come from a slow host.
Result<json::value> ask_for_plan(const Environment& env, const DaemonClient& client,
                                 const std::string& target, const std::string& model) {
  constexpr Millis kLongest{120'000}, kSoon{400};
  StatusLine status(env);
  return client.get(target, kLongest, [&](Millis waited) {
    if (waited > kSoon)
      status.show(fmt::format("looking at {} … {} s", terminal_text(model), waited.count() / 1'000));
  });
}

// Where the figures of a model that is not here come from.
void print_source(const Environment& env, const json::object& plan, std::string_view model) {
  const std::string source = string_or(plan, "source");
  if (source.empty() || source == "installed") return;
  const Bytes read = bytes_or_0(plan, "header_bytes_read"), size = bytes_or_0(plan, "download_bytes");
  std::string text = "nothing was downloaded: ";
  if (source == "catalog") {
    text += "the figures are the catalog's, because " + string_or(plan, "note");
  } else if (read > 0) {
    text += fmt::format("only the file's header was read ({} of {})", format_bytes(read), format_bytes(size));
  } else {
    text += fmt::format("the header of these {} was read before", format_bytes(size));
  }
  text += fmt::format("; get the model with `gezel pull {}`", model);
  print_note(env, terminal_text(text));
}

int run_fit(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const auto client = DaemonClient::connect_or_start(env);
  if (!client) return print_error(env, client.error());
  std::string target = "/v1/memory/plan?model=" + downloads::percent_encoded(arguments.text("MODEL"));
  if (const auto context = arguments.integer("--ctx")) target += fmt::format("&context={}", *context);
  if (const auto slots = arguments.integer("--slots")) target += fmt::format("&slots={}", *slots);
  const auto reply = ask_for_plan(env, *client, target, arguments.text("MODEL"));
  if (!reply) return print_error(env, reply.error());
  if (arguments.has("--json")) {
    *env.out << to_json(*reply) << '\n' << std::flush;
    return kOk;
  }
  if (!reply->is_object()) return kFailure;
  const auto& plan = reply->get_object();
  *env.out << string_or(plan, "summary") << "\n\n";
  const auto* bytes = plan.if_contains("bytes");
  if (bytes != nullptr && bytes->is_object()) {
    const auto& parts = bytes->get_object();
    const Bytes total = bytes_or_0(parts, "total");
    Rows rows;
    for (const auto* part : {"weights", "repack", "kv", "compute", "cache"}) {
      if (const Bytes size = bytes_or_0(parts, part)) add_row(rows, part, size, total);
    }
    add_row(rows, "together", total, total);
    print_rows(env, rows);
  }
  print_source(env, plan, arguments.text("MODEL"));
  return string_or(plan, "decision") == "no" ? kFailure : kOk;
}

}  // namespace

constexpr Command kMemory{.name = "memory",
                          .summary = "show what models may take of this machine's memory, and what they hold",
                          .description =
                              "Every loaded or loading model has a reservation, and they add up to what is "
                              "reserved. Its parts are as planned; what came out otherwise has a row of its "
                              "own. `measured` is what the process was seen to hold.",
                          .examples =
                              "gezel memory  # a bar for every part\n"
                              "gezel memory --json | jq '.pools[0]'  # the figures",
                          .positionals = {},
                          .flags = kMemoryFlags,
                          .run = run_memory};

constexpr Command kFit{.name = "fit",
                       .summary = "say whether a model fits, with which window, and why",
                       .description =
                           "Plans a load without making it: the answer is what the next request would get. "
                           "Of a model that is not "
                           "installed only the file's header is read, from the catalog's host, the hub (hf:) "
                           "or an https address. Exit "
                           "code 1 when it does not fit.",
                       .examples =
                           "gezel fit smollm2-135m-instruct  # the longest window that fits\n"
                           "gezel fit gemma3-270m --ctx 32768 --slots 2  # what that would take\n"
                           "gezel fit hf:unsloth/Qwen3-0.6B-GGUF:Q4_K_M  # before anything is downloaded",
                       .positionals = kFitPositionals,
                       .flags = kFitFlags,
                       .run = run_fit};

}  // namespace gezel::cli
