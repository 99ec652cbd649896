// `gezel parse`: what the service would make of a text that a model wrote. Needs no daemon and no model.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ostream>

#include "base/files.h"
#include "cli/command.h"
#include "cli/printer.h"
#include "turn/parser.h"

namespace gezel::cli {
namespace {

constexpr std::size_t kMaxText = 64 * kMiB;
constexpr std::size_t kMaxTools = 16 * kMiB;

constexpr std::array kPositionals{
    Positional{.name = "FILE",
               .help = "the raw text; without it, or with -, standard input is read",
               .required = false,
               .completes = Completes::file},
};
constexpr std::array kFlags{
    Flag{.name = "--family",
         .kind = Flag::Kind::text,
         .value = "NAME",
         .help = "read as this family writes (harmony, kimi-k3, gemma, granite, ...)"},
    Flag{.name = "--tools",
         .kind = Flag::Kind::text,
         .value = "FILE",
         .help = "the tools of the request: a JSON array, or an object with \"tools\"",
         .completes = Completes::file},
    Flag{.name = "--finish",
         .kind = Flag::Kind::text,
         .value = "REASON",
         .help = "why the text ended; the default is stop",
         .choices = "stop|length",
         .completes = Completes::choice},
    Flag{.name = "--reasoning-open", .help = "the prompt left a block of reasoning open"},
    Flag{.name = "--no-reasoning", .help = "the model does not reason: markers of reasoning are text"},
    Flag{.name = "--json", .help = "print everything as JSON, with every event"},
};

Result<std::string> read_input(const Environment& env, const std::string& file) {
  if (!file.empty() && file != "-") return read_file(file, kMaxText);
  std::string text;
  char buffer[65'536];
  while (true) {
    const ssize_t got = ::read(env.input, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(errno_error("read standard input", errno));
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxText)
      return fail(ErrorKind::too_large, "too_large",
                  fmt::format("standard input has more than {}; cut it", format_bytes(kMaxText)));
  }
}

Result<std::vector<turn::ToolSchema>> read_tools(const std::string& file) {
  std::vector<turn::ToolSchema> out;
  if (file.empty()) return out;
  GEZEL_TRY(const std::string text, read_file(file, kMaxTools));
  GEZEL_TRY(const json::value parsed, parse_json(text));
  const json::array* list = parsed.if_array();
  if (const auto* object = parsed.if_object()) list = array_at(*object, "tools");
  if (list == nullptr) {
    return fail(ErrorKind::invalid, "invalid_tools",
                file + " holds no tools: it must be a JSON array, or an object with an array \"tools\"");
  }
  for (const json::value& tool : *list) {
    GEZEL_TRY(auto schema, turn::read_tool_schema(to_json(tool)));
    out.push_back(std::move(schema));
  }
  return out;
}

json::object to_json_value(const turn::Provenance& provenance) {
  return {{"source", turn::to_string(provenance.source)},
          {"repair", provenance.repair},
          {"coerced", provenance.coerced},
          {"truncated", provenance.truncated},
          {"span", {provenance.text_span.begin, provenance.text_span.end}}};
}

json::object to_json_value(const turn::Event& event) {
  if (const auto* e = std::get_if<turn::ReasoningDelta>(&event)) return {{"event", "reasoning"}, {"text", e->text}};
  if (const auto* e = std::get_if<turn::ContentDelta>(&event)) return {{"event", "content"}, {"text", e->text}};
  if (const auto* e = std::get_if<turn::CallBegin>(&event))
    return {{"event", "call"}, {"index", e->index}, {"name", e->name}};
  if (const auto* e = std::get_if<turn::CallArgumentsDelta>(&event))
    return {{"event", "arguments"}, {"index", e->index}, {"text", e->text}};
  if (const auto* e = std::get_if<turn::CallEnd>(&event)) {
    constexpr std::string_view kOutcomes[] = {"complete", "truncated", "malformed"};
    return {{"event", "call_end"}, {"index", e->index}, {"outcome", kOutcomes[static_cast<int>(e->outcome)]}};
  }
  const auto& replace = std::get<turn::Replace>(event);
  return {{"event", "replace"}, {"reasoning", replace.reasoning}, {"content", replace.content}};
}

json::object to_json_value(const turn::Message& message, const turn::Events& events) {
  json::array calls, unparsed, told;
  for (const auto& call : message.calls) {
    calls.push_back(json::object{{"name", call.name},
                                 {"arguments", call.arguments},
                                 {"engine_id", call.engine_id},
                                 {"provenance", to_json_value(call.provenance)}});
  }
  for (const auto& lost : message.unparsed) unparsed.push_back(json::object{{"name", lost.name}, {"text", lost.text}});
  for (const auto& event : events) told.push_back(to_json_value(event));
  return {{"reasoning", message.reasoning},
          {"content", message.content},
          {"calls", std::move(calls)},
          {"unknown", json::value_from(message.unknown)},
          {"truncated", json::value_from(message.truncated)},
          {"malformed", message.malformed},
          {"unparsed", std::move(unparsed)},
          {"rescued", message.rescued},
          {"repairs", json::value_from(message.repairs)},
          {"events", std::move(told)}};
}

void section(const Environment& env, std::string_view title, std::string_view text) {
  if (text.empty()) return;
  *env.out << paint(Tone::bold, title, color_out(env)) << '\n' << terminal_text(text);
  if (!text.ends_with('\n')) *env.out << '\n';
}

void list(const Environment& env, std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  std::string text;
  for (const auto& line : lines) text += "- " + line + "\n";
  section(env, title, text);
}

void print(const Environment& env, const turn::Message& message) {
  section(env, "reasoning", message.reasoning);
  section(env, "content", message.content);
  for (const auto& call : message.calls) {
    std::string how = turn::to_string(call.provenance.source);
    if (call.provenance.repair > 0) how += fmt::format(", repaired to R{}", call.provenance.repair);
    if (call.provenance.coerced) how += ", fitted to the schema";
    section(env, fmt::format("call {} ({})", call.name, how), call.arguments_text);
  }
  list(env, "unknown tools", message.unknown);
  list(env, "truncated calls", message.truncated);
  for (const auto& lost : message.unparsed) section(env, "not a call: " + lost.name, lost.text);
  list(env, "repairs", message.repairs);
}

int run(Environment& env, const Arguments& arguments) {
  const auto family = turn::family_named(arguments.text("--family", "other"));
  if (!family) {
    return print_error(env, {ErrorKind::invalid, "unknown_family",
                             fmt::format("there is no family '{}'; docs/tools.md lists them", arguments.text("--family")),
                             "--family"});
  }
  const auto text = read_input(env, arguments.text("FILE"));
  if (!text) return print_error(env, text.error());
  const auto tools = read_tools(arguments.text("--tools"));
  if (!tools) return print_error(env, tools.error());

  turn::ParserOptions options;
  options.family = *family;
  options.split_reasoning = !arguments.has("--no-reasoning");
  options.start = arguments.has("--reasoning-open") ? turn::StartState::open : turn::StartState::closed;
  options.tools = *tools;
  turn::Parser parser(std::move(options));
  turn::Events events = parser.feed(*text);
  auto finished = parser.finish(arguments.text("--finish", "stop") == "length" ? turn::FinishReason::length
                                                                               : turn::FinishReason::stop);
  events.insert(events.end(), finished.events.begin(), finished.events.end());
  if (arguments.has("--json")) {
    *env.out << to_json(to_json_value(finished.message, events)) << '\n';
  } else {
    print(env, finished.message);
  }
  *env.out << std::flush;
  return kOk;
}

}  // namespace

constexpr Command kParse{
    .name = "parse",
    .summary = "show what is read out of a model's raw text",
    .description = "Splits reasoning, content and tool calls as the service does, and says where every call came from "
                   "and what was repaired. Needs no daemon.",
    .examples = "gezel parse answer.txt --tools tools.json  # what became of a call\n"
                "echo '<think>hm</think>Yes.' | gezel parse --json  # every event\n"
                "gezel parse --family harmony --finish length answer.txt  # a cut answer of gpt-oss",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run,
    .needs_home = false};

}  // namespace gezel::cli
