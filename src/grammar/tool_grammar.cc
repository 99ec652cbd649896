#include "grammar/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "grammar/lark_text.h"
#include "grammar/tool_values.h"

namespace gezel::grammar {

namespace {

constexpr std::size_t kMostFreeOrder = 60;  // keys that may come in any order: the library remembers 64 bits

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    parts.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

class Writer {
 public:
  Writer(const ToolSet& set, const ToolDialect& dialect, const Vocabulary& vocabulary)
      : set_(set),
        dialect_(dialect),
        text_(dialect, vocabulary, set.mode == ToolMode::lazy && !set.answer),
        values_(dialect, text_) {}

  std::string run() {
    std::string named;
    for (std::size_t i = 0; i < set_.tools.size(); ++i) {
      named += (i == 0 ? "" : " | ") + fmt::format("c{}", i);
      rules_ += call(i, set_.tools[i]);
    }
    rules_ += fmt::format("call: {} named\nnamed: {}\n", text_.sequence(dialect_.before_name), named);

    const bool several = dialect_.several && set_.parallel;
    const auto calls =
        several ? fmt::format("call ({} call)*", text_.sequence(dialect_.between)) : std::string("call");
    rules_ += fmt::format("envelope: {} {} {}\n", text_.sequence(dialect_.open), calls,
                          text_.sequence(dialect_.close));

    std::string start = "envelope";
    if (set_.mode == ToolMode::eager || set_.answer) {
      // A list that holds several calls is not followed by another one.
      if (set_.parallel && !dialect_.several) start = "envelope (WS? envelope)*";
      if (set_.answer) start += " | answer";
    }
    std::string lark = "start: " + start + "\n" + rules_;
    if (set_.answer) lark += "answer: %json " + schema_text(*set_.answer) + "\n";
    return lark + values_.rules() + text_.terminals();
  }

  const DialectText& text() const { return text_; }

 private:
  // "cN": name and arguments of one tool. The name and what stands behind it are one lexeme: a name that
  // begins another name is then told apart by what follows.
  std::string call(std::size_t number, const Tool& tool) {
    const auto head = text_.sequence(std::string(tool.name) + std::string(dialect_.after_name));
    const auto arguments = dialect_.style == ArgumentStyle::json
                               ? values_.json(tool.parameters, tool.parameters.root)
                               : listed_arguments(number, tool);
    return fmt::format("c{}: {} {} {}\n", number, head, arguments, text_.sequence(dialect_.after_arguments));
  }

  std::string listed_arguments(std::size_t number, const Tool& tool) {
    const auto arguments = values_.arguments(tool.parameters);
    if (arguments.empty()) return values_.any_arguments(tool.parameters);
    return arguments.size() <= kMostFreeOrder ? in_any_order(number, arguments) : in_order(number, arguments);
  }

  // "aN": an argument and what comes behind it; bit i of the parameter: argument i has been given. "bN":
  // behind an argument, where arguments are separated.
  std::string in_any_order(std::size_t number, const std::vector<ToolValues::Argument>& arguments) {
    std::string enough = "true";
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].required) continue;
      enough =
          enough == "true" ? fmt::format("bit_set({})", i) : fmt::format("and({}, bit_set({}))", enough, i);
    }
    const auto separator = text_.sequence(dialect_.separator);
    const bool separated = separator != "\"\"";
    const auto next = fmt::format("{}{}", separated ? 'b' : 'a', number);
    std::string one = separated ? std::string() : fmt::format("\"\" %if {}", enough);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      one += fmt::format("{}{} {}::set_bit({}) %if bit_clear({})", one.empty() ? "" : "|", arguments[i].rule,
                         next, i, i);
    }
    rules_ += fmt::format("a{}::_ : {}\n", number, one);
    if (!separated) return fmt::format("a{}::0", number);
    rules_ += fmt::format("b{}::_ : \"\" %if {} | {} a{}::_\n", number, enough, separator, number);
    return enough == "true" ? fmt::format("(a{}::0)?", number) : fmt::format("a{}::0", number);
  }

  std::string in_order(std::size_t number, const std::vector<ToolValues::Argument>& arguments) {
    const auto separator = text_.sequence(dialect_.separator);
    // "pN_i": from argument i on, with nothing before it; "qN_i": with something before it.
    for (std::size_t i = 0; i <= arguments.size(); ++i) {
      for (const char kind : {'p', 'q'}) {
        const auto name = fmt::format("{}{}-{}", kind, number, i);
        if (i == arguments.size()) {
          rules_ += fmt::format("{}: \"\"\n", name);
          continue;
        }
        const auto given =
            fmt::format("{} {} q{}-{}", kind == 'q' ? separator : "", arguments[i].rule, number, i + 1);
        const auto skipped =
            arguments[i].required ? std::string() : fmt::format(" | {}{}-{}", kind, number, i + 1);
        rules_ += fmt::format("{}: {}{}\n", name, given, skipped);
      }
    }
    return fmt::format("p{}-0", number);
  }

  const ToolSet& set_;
  const ToolDialect& dialect_;
  DialectText text_;
  ToolValues values_;
  std::string rules_;
};

std::vector<Trigger> triggers_of(const ToolSet& set, const ToolDialect& dialect,
                                 const Vocabulary& vocabulary) {
  std::vector<Trigger> triggers;
  const auto add = [&](std::string text) {
    Trigger trigger;
    trigger.token = vocabulary.control(text);
    trigger.at_start = dialect.bare && !trigger.token;
    trigger.text = std::move(text);
    triggers.push_back(std::move(trigger));
  };
  for (const auto text : split(dialect.triggers)) {
    const auto name = text.find('\4');
    if (name == std::string_view::npos) {
      add(std::string(text));
      continue;
    }
    for (const auto& tool : set.tools)
      add(std::string(text.substr(0, name)) + tool.name + std::string(text.substr(name + 1)));
  }
  return triggers;
}

}  // namespace

Result<ToolGrammar> tool_grammar(const ToolSet& tools, const Vocabulary& vocabulary) {
  const auto* dialect = find_tool_dialect(tools.dialect);
  if (dialect == nullptr) {
    return fail(ErrorKind::invalid, "tool-dialect-unknown",
                fmt::format("No tool dialect is called '{}'.", tools.dialect));
  }
  if (tools.tools.empty()) {
    return fail(ErrorKind::invalid, "invalid_tool_choice",
                "A tool grammar needs at least one tool that may be called.", "tools");
  }
  Writer writer(tools, *dialect, vocabulary);
  ToolGrammar grammar;
  grammar.lark = writer.run();
  grammar.markers = writer.text().tokens();
  if (tools.mode == ToolMode::lazy && !tools.answer)
    grammar.triggers = triggers_of(tools, *dialect, vocabulary);
  return grammar;
}

}  // namespace gezel::grammar
