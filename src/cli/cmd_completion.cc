#include <array>
#include <ostream>

#include "cli/command.h"
#include "cli/completion.h"
#include "cli/daemon_client.h"
#include "cli/exit_codes.h"
#include "cli/model_names.h"

namespace gezel::cli {
namespace {

constexpr std::array kPositionals{
    Positional{.name = "SHELL",
               .help = "for which shell",
               .completes = Completes::choice,
               .choices = "bash|zsh|fish"},
};

int print_script(Environment& env, const Arguments& arguments) {
  *env.out << completion_script(arguments.text("SHELL")) << std::flush;
  return kOk;
}

// Of a list of the daemon; a shell waits for this, so a daemon that does not answer at once is left alone.
json::array daemon_list(const Environment& env, const std::string& target, std::string_view member) {
  const auto address = service::find_daemon(env.home);
  if (!address) return {};
  const auto reply =
      HttpClient(address->port, address->token).send({.target = target, .silence = Millis(1'000)});
  if (!reply || reply->status != 200) return {};
  const auto value = parse_json(reply->body);
  const json::array* list = value && value->is_object() ? array_at(value->get_object(), member) : nullptr;
  return list == nullptr ? json::array() : *list;
}

std::vector<std::string> loaded_models(const Environment& env) {
  std::vector<std::string> ids;
  for (const json::value& model : daemon_list(env, "/api/ps", "models")) {
    if (model.is_object()) ids.push_back(string_or(model.get_object(), "id"));
  }
  return ids;
}

std::vector<std::string> available_models(const Environment& env) {
  std::vector<std::string> ids;
  for (const json::value& model : daemon_list(env, "/v1/models", "data")) {
    if (model.is_object() && string_or(model.get_object(), "availability") == "downloadable")
      ids.push_back(string_or(model.get_object(), "id"));
  }
  return ids;
}

int print_candidates(Environment& env, const Arguments& arguments) {
  // Without a home there are still commands and options to complete.
  const bool home = check_home(env).has_value();
  using Names = std::vector<std::string>;
  const ModelLists models{.installed = [&] { return home ? stored_models(env) : Names(); },
                          .loaded = [&] { return home ? loaded_models(env) : Names(); },
                          .available = [&] { return home ? available_models(env) : Names(); }};
  for (const Candidate& candidate : complete_words(arguments.all("WORDS"), models)) {
    *env.out << candidate.text;
    if (!candidate.about.empty()) *env.out << '\t' << candidate.about;
    *env.out << '\n';
  }
  *env.out << std::flush;
  return kOk;
}

}  // namespace

constexpr Command kCompletion{.name = "completion",
                              .summary = "print the completion script of a shell",
                              .description = "Completes commands, options and the names of models.",
                              .examples =
                                  "eval \"$(gezel completion bash)\"  # in ~/.bashrc\n"
                                  "source <(gezel completion zsh)  # in ~/.zshrc\n"
                                  "gezel completion fish | source  # in ~/.config/fish/config.fish",
                              .positionals = kPositionals,
                              .flags = {},
                              .run = print_script,
                              .needs_home = false};

constexpr Command kComplete{.name = "__complete",
                            .summary = "what the completion scripts ask",
                            .description = "",
                            .examples = "",
                            .positionals = {},
                            .flags = {},
                            .run = print_candidates,
                            .hidden = true,
                            .raw_words = true};

}  // namespace gezel::cli
