// CLI11 splits words into flags, values and positionals; the checks and their wording are ours, because its
// own messages do not say what would be right. It takes "[a,b]" for a list, which a prompt is not, so such
// words travel with a mark.
#include "cli/parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include "cli/exit_codes.h"
#include "cli/near_misses.h"

namespace gezel::cli {
namespace {

std::unexpected<Error> usage(std::string message) {
  return fail(ErrorKind::invalid, std::string(kCodeUsage), std::move(message));
}

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> out;
  while (!choices.empty()) {
    const std::size_t bar = choices.find('|');
    out.push_back(choices.substr(0, bar));
    choices = bar == std::string_view::npos ? std::string_view() : choices.substr(bar + 1);
  }
  return out;
}

std::string one_of(std::string_view choices) {
  std::string out;
  const auto words = split_choices(choices);
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  return out;
}

bool is_choice(std::string_view choices, std::string_view value) {
  const auto words = split_choices(choices);
  return std::find(words.begin(), words.end(), value) != words.end();
}

// "" when the value is right, else what would be.
std::string problem_with(const Flag& flag, const Arguments& arguments, const std::string& value) {
  if (!flag.choices.empty() && !is_choice(flag.choices, value)) {
    return fmt::format("{} is '{}'; it may be {}", flag.long_name(), value, one_of(flag.choices));
  }
  if (flag.kind == Flag::Kind::integer) {
    const auto number = arguments.integer(flag.long_name());
    if (!number || static_cast<double>(*number) < flag.low || static_cast<double>(*number) > flag.high) {
      return fmt::format("{} is '{}'; it must be a whole number from {:.0f} to {:.0f}", flag.long_name(),
                         value, flag.low, flag.high);
    }
  }
  if (flag.kind == Flag::Kind::number) {
    const auto number = arguments.number(flag.long_name());
    if (!number || !(*number >= flag.low && *number <= flag.high)) {
      return fmt::format("{} is '{}'; it must be a number from {} to {}", flag.long_name(), value, flag.low,
                         flag.high);
    }
  }
  if (flag.kind == Flag::Kind::text && value.empty()) return fmt::format("{} is empty", flag.long_name());
  return {};
}

std::string unknown_flag(const Command& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const auto& flags : {command.flags, common_flags()}) {
    for (const Flag& flag : flags) known.emplace_back(flag.long_name());
  }
  const auto close = near_misses(known, name, 1);
  return fmt::format("gezel {} has no option {}{}; see `gezel {} --help`", command.name, name,
                     close.empty() ? "" : fmt::format(", did you mean {}?", close.front()), command.name);
}

constexpr char kMark = '\x01';

std::string marked(const std::string& word) {
  return word.starts_with('[') ? kMark + word : word;
}
std::string unmarked(const std::string& word) {
  return word.starts_with(kMark) ? word.substr(1) : word;
}

// The options CLI11 fills, with what they belong to. A deque, because CLI11 keeps references to the strings.
struct Declared {
  CLI::Option* option;
  const Flag* flag;  // or
  const Positional* positional;
  std::deque<std::vector<std::string>>::size_type values;
};

}  // namespace

Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras(false);
  std::deque<std::vector<std::string>> storage;
  std::vector<Declared> declared;
  for (const auto& flags : {command.flags, common_flags()}) {
    for (const Flag& flag : flags) {
      auto& values = storage.emplace_back();
      CLI::Option* option = flag.kind == Flag::Kind::off_on
                                ? app.add_flag(std::string(flag.name))
                                : app.add_option(std::string(flag.name), values)->allow_extra_args(false);
      if (flag.kind != Flag::Kind::off_on) option->type_size(1)->expected(1);
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      declared.push_back({option, &flag, nullptr, storage.size() - 1});
    }
  }
  for (const Positional& positional : command.positionals) {
    auto& values = storage.emplace_back();
    CLI::Option* option = app.add_option(std::string(positional.name), values);
    option->expected(1, positional.repeats ? 1 << 20 : 1)->allow_extra_args(positional.repeats);
    declared.push_back({option, nullptr, &positional, storage.size() - 1});
  }

  try {
    std::vector<std::string> reversed;  // what CLI11 wants
    for (auto word = words.rbegin(); word != words.rend(); ++word) reversed.push_back(marked(*word));
    app.parse(std::move(reversed));
  } catch (const CLI::ExtrasError&) {
    // Find the word it did not know: the remaining ones in their order.
    for (const std::string& word : app.remaining()) {
      if (word.size() > 1 && word.starts_with('-')) return usage(unknown_flag(command, word));
      return usage(
          fmt::format("'{}' is one argument too many; see `gezel {} --help`", unmarked(word), command.name));
    }
    return usage(fmt::format("too many arguments; see `gezel {} --help`", command.name));
  } catch (const CLI::ParseError& error) {
    return usage(fmt::format("{}; see `gezel {} --help`", error.what(), command.name));
  }

  Arguments arguments;
  for (const Declared& entry : declared) {
    if (entry.option->count() == 0) continue;
    const auto& values = storage[entry.values];
    if (entry.positional != nullptr) {
      for (const std::string& value : values) arguments.add(entry.positional->name, unmarked(value));
    } else if (entry.flag->kind == Flag::Kind::off_on) {
      arguments.add(entry.flag->long_name(), "");
    } else {
      for (const std::string& value : values) arguments.add(entry.flag->long_name(), unmarked(value));
    }
  }
  if (arguments.has("--help")) return arguments;
  for (const Declared& entry : declared) {
    if (entry.flag != nullptr && entry.flag->kind != Flag::Kind::off_on && entry.option->count() > 0) {
      const std::string problem =
          problem_with(*entry.flag, arguments, arguments.text(entry.flag->long_name()));
      if (!problem.empty()) return usage(problem);
    }
    if (entry.positional == nullptr) continue;
    const Positional& positional = *entry.positional;
    const std::string value = arguments.text(positional.name);
    if (positional.required && entry.option->count() == 0) {
      return usage(fmt::format("{} is missing ({}); see `gezel {} --help`", positional.name, positional.help,
                               command.name));
    }
    if (!positional.choices.empty() && entry.option->count() > 0 && !is_choice(positional.choices, value)) {
      return usage(
          fmt::format("{} is '{}'; it may be {}", positional.name, value, one_of(positional.choices)));
    }
  }
  return arguments;
}

}  // namespace gezel::cli
