// cli/command.h
//
// A command is data: its name, what it takes, what its help says, and the function that runs it. Parsing,
// help and shell completion all read the same description, so they cannot disagree.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/environment.h"

namespace gezel::cli {

// What a shell offers for an argument.
enum class Completes { nothing, model, loaded_model, available_model, file, folder, choice };

struct Flag {
  enum class Kind { off_on, text, integer, number };  // off_on: takes no value
  std::string_view name;                              // "--ctx", or "-v,--verbose"
  Kind kind = Kind::off_on;
  std::string_view value;  // what help calls its value: "TOKENS"
  std::string_view help;
  double low = 0, high = 0;  // integer and number: what is allowed
  std::string_view choices;  // text: "on|off" when only these are allowed
  Completes completes = Completes::nothing;

  std::string_view long_name() const { return name.substr(name.find("--")); }
};

struct Positional {
  std::string_view name;  // "MODEL"
  std::string_view help;
  bool required = true;
  bool repeats = false;  // takes all remaining words
  Completes completes = Completes::nothing;
  std::string_view choices = {};  // "bash|zsh|fish"
};

// What was given. Asking for something the command does not declare is a bug, not an error.
class Arguments {
 public:
  void add(std::string_view name, std::string value) {
    values_[std::string(name)].push_back(std::move(value));
  }
  bool has(std::string_view name) const { return values_.contains(name); }
  std::string text(std::string_view name, std::string_view fallback = {}) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>>
      values_;  // flags by long name, positionals by name
};

struct Command {
  std::string_view name;
  std::string_view summary;      // one line, for the list of commands
  std::string_view description;  // paragraphs, for its own help
  std::string_view examples;     // lines "gezel … # what it does"
  std::span<const Positional> positionals;
  std::span<const Flag> flags;
  int (*run)(Environment& env, const Arguments& arguments) = nullptr;
  bool hidden = false;
  bool raw_words = false;  // takes every word as it is, as "WORDS"
  bool needs_home = true;  // runs only with a home that can be read
};

extern const Command kServe, kRun, kChat, kModels, kDefault, kPull, kRm, kImport, kExport, kShare, kPs,
    kMemory, kFit, kTune, kCache, kStop, kKey, kQuarantine, kDoctor, kParse, kCompletion, kComplete;

// Whether the home is known and can be read. Errors: `no_home`, `home_unreadable`.
Result<> check_home(const Environment& env);

// Every command, in the order help shows them.
std::span<const Command* const> commands();
const Command* find_command(std::string_view name);
// Flags every command takes besides its own: --home, --help.
std::span<const Flag> common_flags();

}  // namespace gezel::cli
