#include "cli/run_cli.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/near_misses.h"
#include "cli/parser.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

int unknown_command(const Environment& env, std::string_view word) {
  std::vector<std::string> names;
  for (const Command* command : commands()) {
    if (!command->hidden) names.emplace_back(command->name);
  }
  const std::string what = word.starts_with('-') ? "option" : "command";
  return print_error(env, {ErrorKind::invalid, std::string(kCodeUsage),
                           fmt::format("There is no {} '{}'.{} `gezel --help` lists them", what, word,
                                       did_you_mean(near_misses(names, word, 2))),
                           ""});
}

int run_command(const Command& command, const std::vector<std::string>& words, Environment& env) {
  Arguments arguments;
  if (command.raw_words) {
    for (const std::string& word : words) arguments.add("WORDS", word);
    return command.run(env, arguments);
  }
  auto parsed = parse_arguments(command, words);
  if (!parsed) return print_error(env, parsed.error());
  if (parsed->has("--help")) {
    *env.out << command_help(command, color_out(env)) << std::flush;
    return kOk;
  }
  if (parsed->has("--home")) {
    std::error_code ignored;
    env.home = fs::absolute(parsed->text("--home"), ignored).lexically_normal();
    env.home_error.reset();
  }
  if (command.needs_home) {
    if (const auto home = check_home(env); !home) return print_error(env, home.error());
  }
  return command.run(env, *parsed);
}

}  // namespace

int run_cli(const std::vector<std::string>& words, Environment env) {
  if (words.empty()) {
    *env.err << general_help(env.version, color_err(env)) << std::flush;
    return kUsage;
  }
  const std::string& first = words.front();
  if (first == "--version" || first == "-V") {
    *env.out << "gezel " << env.version << '\n' << std::flush;
    return kOk;
  }
  if (first == "--help" || first == "-h" || (first == "help" && words.size() == 1)) {
    *env.out << general_help(env.version, color_out(env)) << std::flush;
    return kOk;
  }
  if (first == "help") {
    const Command* command = find_command(words[1]);
    if (command == nullptr) return unknown_command(env, words[1]);
    *env.out << command_help(*command, color_out(env)) << std::flush;
    return kOk;
  }
  // `gezel --home DIR models` reads as naturally as `gezel models --home DIR`.
  if (first == "--home" && words.size() > 2) {
    std::vector<std::string> moved(words.begin() + 2, words.end());
    moved.insert(moved.begin() + 1, {"--home", words[1]});
    return run_cli(moved, std::move(env));
  }
  const Command* command = find_command(first);
  if (command == nullptr) return unknown_command(env, first);
  return run_command(*command, {words.begin() + 1, words.end()}, env);
}

}  // namespace gezel::cli
