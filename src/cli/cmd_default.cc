#include <fmt/format.h>

#include <array>
#include <ostream>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

constexpr std::array kPositionals{
    Positional{.name = "MODEL",
               .help = "make this installed model the default; left out: say which one it is",
               .required = false,
               .completes = Completes::model},
};
constexpr std::array kFlags{Flag{.name = "--json", .help = "print JSON"}};

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const auto client = DaemonClient::connect_or_start(env);
  if (!client) return print_error(env, client.error());
  std::string model;
  if (arguments.has("MODEL")) {
    const auto known = offered_models(*client);
    if (!known) return print_error(env, known.error());
    auto found = resolve_model(arguments.text("MODEL"), *known);
    if (!found) return print_error(env, found.error());
    model = std::move(*found);
  }
  const auto reply = model.empty() ? client->get("/api/default-model")
                                   : client->post("/api/default-model", {{"model", model}});
  if (!reply) return print_error(env, reply.error());
  if (!reply->is_object()) {
    return print_error(env, {ErrorKind::corrupt,
                             std::string(kCodeBadReply),
                             "The daemon did not say which model is the default",
                             {}});
  }
  const json::object& answer = reply->get_object();
  if (arguments.has("--json")) {
    *env.out << to_json(answer) << '\n' << std::flush;
    return kOk;
  }
  const std::string now = string_or(answer, "model"), pinned = string_or(answer, "pinned");
  if (now.empty()) {
    return print_error(env, {ErrorKind::not_found, "model_not_found",
                             string_or(answer, "reason", "No model is installed"), "model"});
  }
  *env.out << short_name(now) << '\n' << std::flush;
  if (!pinned.empty() && pinned != short_name(now))
    print_note(env, fmt::format("{} is pinned but not installed; this one stands in for it", pinned));
  return kOk;
}

}  // namespace

constexpr Command kDefault{
    .name = "default",
    .summary = "show or set the model that is used when none is named",
    .description =
        "Requests and commands without a model use it. It is kept in config.json; while the pinned model is "
        "not installed, the one that was installed last stands in for it.",
    .examples =
        "gezel default  # which one is it?\n"
        "gezel default gemma3-270m  # from now on this one\n"
        "gezel run \"Why is the sky blue?\"  # and it answers",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
