#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/printer.h"
#include "cli/table.h"

namespace gezel::cli {
namespace {

constexpr std::size_t kWidth = 100;  // of a help text; wider lines are hard to read

// Breaks text at spaces; lines after the first begin with `indent` spaces.
std::string wrap(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t used = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (used > indent && used + 1 + display_width(word) > width) {
      out += '\n' + std::string(indent, ' ');
      used = indent;
    } else if (used > indent) {
      out += ' ';
      ++used;
    }
    out += word;
    used += display_width(word);
  }
  return out;
}

struct Row {
  std::string left, right;
};

std::string render_rows(const std::vector<Row>& rows) {
  std::size_t left = 0;
  for (const Row& row : rows) left = std::max(left, display_width(row.left));
  std::string out;
  for (const Row& row : rows) {
    out += fmt::format("  {}{}  {}\n", row.left, std::string(left - display_width(row.left), ' '),
                       wrap(row.right, left + 4, kWidth));
  }
  return out;
}

Row flag_row(const Flag& flag) {
  std::string names(flag.name);
  if (const std::size_t comma = names.find(','); comma != std::string::npos)
    names.insert(comma + 1, " ");
  else
    names.insert(0, "    ");  // lines up with those that have a letter
  std::string_view value = flag.choices.empty() ? flag.value : flag.choices;
  return {value.empty() ? names : fmt::format("{} {}", names, value), std::string(flag.help)};
}

std::string usage_line(const Command& command) {
  std::string out = fmt::format("gezel {}", command.name);
  for (const Positional& positional : command.positionals) {
    const std::string_view name = positional.choices.empty() ? positional.name : positional.choices;
    const std::string_view dots = positional.repeats ? "..." : "";
    out += fmt::format(fmt::runtime(positional.required ? " {}{}" : " [{}{}]"), name, dots);
  }
  return out + " [options]\n";
}

}  // namespace

std::string general_help(const std::string& version, bool color) {
  std::vector<Row> rows;
  for (const Command* command : commands()) {
    if (!command->hidden) rows.push_back({std::string(command->name), std::string(command->summary)});
  }
  const auto title = [color](std::string_view text) { return paint(Tone::bold, text, color); };
  std::string out =
      fmt::format("gezel {}: runs language models on this machine and serves the OpenAI API\n\n", version);
  out += title("Usage") + "\n  gezel COMMAND [arguments]\n  gezel COMMAND --help\n  gezel --version\n\n";
  out += title("Commands") + '\n' + render_rows(rows) + '\n';
  out += title("Examples") + '\n';
  out +=
      render_rows({{"gezel models", "what is installed"},
                   {"gezel run smollm2-135m-instruct \"Name three rivers.\"", "one answer, streamed"},
                   {"git diff | gezel run gemma3-270m \"Explain this change.\"", "text from another program"},
                   {"gezel chat gemma3-270m", "a conversation"},
                   {"gezel key", "the API key for OpenAI clients"}});
  out += '\n' + title("Environment") + '\n';
  out += render_rows({{"GEZEL_HOME", "where models, keys and logs are (~/.gezel)"},
                      {"GEZEL_PORT", "port of `gezel serve` (6228, else a free one); 0 = any free one"},
                      {"GEZEL_TARGET_ITL_MS", "`gezel serve`: pace of answers while prompts are read (115)"},
                      {"GEZEL_CAPACITY_BUDGET_GB", "`gezel serve`: GiB that all models together may take"},
                      {"GEZEL_FORCE_BEHAVIORS", "`gezel serve`: behaviours to switch on for every model"},
                      {"GEZEL_REMOVE_BEHAVIORS", "the same to switch off"},
                      {"GEZEL_ENGINE", "the gezel-engine program, when it is not beside gezel"},
                      {"NO_COLOR", "no colours"}});
  out += '\n' + title("Exit status") + '\n';
  out += render_rows({{"0", "done"},
                      {"1", "it failed; the message says why and what to do"},
                      {"2", "the command line is wrong"},
                      {"3", "no daemon answers"},
                      {"4", "no such model"},
                      {"130", "interrupted"}});
  return out;
}

std::string command_help(const Command& command, bool color) {
  const auto title = [color](std::string_view text) { return paint(Tone::bold, text, color); };
  std::string summary(command.summary);
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  std::string out = fmt::format("{}.\n\n{}\n  {}", summary, title("Usage"), usage_line(command));
  if (!command.description.empty()) {
    out += '\n';
    for (std::string_view rest = command.description; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      out += wrap(rest.substr(0, end), 0, kWidth) + '\n';
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
  }
  if (!command.positionals.empty()) {
    std::vector<Row> rows;
    for (const Positional& positional : command.positionals) {
      rows.push_back({std::string(positional.name), std::string(positional.help)});
    }
    out += '\n' + title("Arguments") + '\n' + render_rows(rows);
  }
  std::vector<Row> rows;
  for (const auto& flags : {command.flags, common_flags()}) {
    for (const Flag& flag : flags) rows.push_back(flag_row(flag));
  }
  out += '\n' + title("Options") + '\n' + render_rows(rows);
  if (!command.examples.empty()) {
    std::vector<Row> examples;
    for (std::string_view rest = command.examples; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      const std::size_t hash = line.find("  # ");
      examples.push_back({std::string(line.substr(0, hash)),
                          hash == std::string_view::npos ? "" : std::string(line.substr(hash + 4))});
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
    out += '\n' + title("Examples") + '\n' + render_rows(examples);
  }
  return out;
}

}  // namespace gezel::cli
