#include "cli/command.h"

#include <array>
#include <charconv>

#include "service/runtime_files.h"

namespace gezel::cli {
namespace {

constexpr std::array kCommands{&kRun,    &kChat,   &kModels,     &kDefault, &kPull, &kRm,
                               &kImport, &kExport, &kShare,      &kServe,   &kPs,   &kMemory,
                               &kFit,    &kTune,   &kCache,      &kStop,    &kKey,  &kQuarantine,
                               &kDoctor, &kParse,  &kCompletion, &kComplete};

constexpr std::array kCommonFlags{
    Flag{.name = "--home",
         .kind = Flag::Kind::text,
         .value = "DIR",
         .help = "where models, keys and logs are (GEZEL_HOME, else ~/.gezel)",
         .completes = Completes::folder},
    Flag{.name = "-h,--help", .help = "print this help"},
};

}  // namespace

std::string Arguments::text(std::string_view name, std::string_view fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(fallback) : found->second.back();
}

std::optional<std::int64_t> Arguments::integer(std::string_view name) const {
  const std::string word = text(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

std::optional<double> Arguments::number(std::string_view name) const {
  const std::string word = text(name);
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

std::vector<std::string> Arguments::all(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

Result<> check_home(const Environment& env) {
  if (env.home_error) return std::unexpected(*env.home_error);
  return service::check_home(env.home);
}

std::span<const Command* const> commands() {
  return kCommands;
}
std::span<const Flag> common_flags() {
  return kCommonFlags;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : kCommands) {
    if (command->name == name) return command;
  }
  return nullptr;
}

}  // namespace gezel::cli
