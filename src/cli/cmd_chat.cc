#include <fmt/format.h>

#include <array>
#include <ostream>

#include "base/utf8.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/generation_flags.h"
#include "cli/line_editor.h"
#include "cli/model_names.h"
#include "cli/near_misses.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

constexpr std::array kPositionals{
    Positional{.name = "MODEL",
               .help = "which model to talk to; see `gezel models`. Left out: the default one",
               .required = false,
               .completes = Completes::model},
};
constexpr std::array kFlags{
    kSystemFlag,
    kMaxTokensFlag,
    kTemperatureFlag,
    kSeedFlag,
    Flag{.name = "--no-history",
         .help = "keep no record of what is typed (else <home>/cli/history, for you alone)"},
    Flag{.name = "-v,--verbose", .help = "after each answer say how many tokens it took and how fast it was"},
};

class Conversation {
 public:
  Conversation(const Environment& env, ModelAtDaemon target, const Arguments& arguments)
      : env_(env), target_(std::move(target)), arguments_(arguments), system_(arguments.text("--system")) {}

  // The exit code when the conversation is over.
  int talk(LineEditor& editor) {
    if (env_.input_is_terminal) {
      print_note(env_, fmt::format("{}. /help lists commands, /exit or Ctrl-D ends", target_.model));
    }
    for (;;) {
      InputLine line = editor.read();
      if (line.kind == InputLine::Kind::end) return last_;
      if (line.kind == InputLine::Kind::interrupted) {
        if (!env_.input_is_terminal) return kInterrupted;
        print_note(env_, "Ctrl-C stops an answer; /exit or Ctrl-D ends the conversation");
        continue;
      }
      if (line.text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      if (line.text.starts_with('/') && line.text.find('\n') == std::string::npos) {
        if (!command(line.text)) return last_;
        continue;
      }
      say(sanitize_utf8(line.text));
      // Piped questions have nobody at the keyboard: Ctrl-C then means the program.
      if (!env_.input_is_terminal && Interrupt::raised()) return kInterrupted;
    }
  }

 private:
  // False: the conversation is over.
  bool command(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest =
        space == std::string::npos ? "" : line.substr(line.find_first_not_of(' ', space));
    if (name == "/exit" || name == "/quit" || name == "/bye") return false;
    if (name == "/help") {
      *env_.err << "  /reset          forget the conversation so far\n"
                   "  /system TEXT    tell the model its role (no TEXT: none) and start over\n"
                   "  /exit           end\n"
                   "  \"\"\"             begin and end a text of several lines; or end a line with \\, or "
                   "Alt-Enter\n"
                   "  Ctrl-C          stop the answer\n"
                << std::flush;
    } else if (name == "/reset") {
      messages_.clear();
      print_note(env_, "forgotten");
    } else if (name == "/system") {
      system_ = rest;
      messages_.clear();
      print_note(env_, system_.empty() ? "no role; starting over" : "role set; starting over");
    } else {
      print_note(env_,
                 fmt::format("there is no {}.{} /help lists commands", name,
                             did_you_mean(near_misses({"/help", "/reset", "/system", "/exit"}, name, 1))));
    }
    return true;
  }

  void say(std::string text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    json::object body = generation_body(target_.model, arguments_);
    json::array messages;
    if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
    messages.insert(messages.end(), messages_.begin(), messages_.end());
    body["messages"] = std::move(messages);

    Answer answer;
    auto outcome = ask(body, answer);
    // The daemon may have been restarted meanwhile; its port and token are then others.
    if (!outcome && outcome.error().code == kCodeUnreachable && reconnect()) outcome = ask(body, answer);

    const bool stopped = !outcome && outcome.error().code == kCodeInterrupted;
    if (!outcome && stopped) print_note(env_, "stopped");
    if (!outcome && !stopped) print_error(env_, outcome.error());
    last_ = outcome || stopped ? kOk : exit_code_for(outcome.error());
    // What was said stays part of the conversation, also when it was cut; a question without any answer is
    // taken back, so that roles keep alternating.
    if (answer.text.empty() && !outcome) {
      messages_.pop_back();
    } else {
      messages_.push_back({{"role", "assistant"}, {"content", answer.text}});
    }
    if (outcome && arguments_.has("--verbose")) print_note(env_, describe_figures(answer));
    if (outcome && answer.finish_reason == "length")
      print_note(env_, "the answer was cut at its limit of tokens");
  }

  Result<> ask(const json::object& body, Answer& answer) {
    Interrupt::clear();
    return print_answer(env_, target_.client, target_.model, body, template_said_, answer);
  }

  bool reconnect() {
    auto client = DaemonClient::connect_or_start(env_);
    if (!client) return false;
    target_.client = std::move(*client);
    return true;
  }

  const Environment& env_;
  Interrupt interrupt_;
  ModelAtDaemon target_;
  const Arguments& arguments_;
  std::string system_;
  json::array messages_;
  bool template_said_ = false;
  int last_ = kOk;
};

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  auto target = open_model(env, arguments.text("MODEL"));
  if (!target) return print_error(env, target.error());
  const fs::path history = arguments.has("--no-history") ? fs::path() : env.home / "cli" / "history";
  const auto editor = LineEditor::open(env, history);
  return Conversation(env, std::move(*target), arguments).talk(*editor);
}

}  // namespace

constexpr Command kChat{.name = "chat",
                        .summary = "talk with a model",
                        .description =
                            "A conversation in this terminal. Arrow keys edit and recall, Ctrl-R searches "
                            "what was typed before. Ctrl-C stops an "
                            "answer, not the program. Lines that begin with / are commands: /help, /reset, "
                            "/system TEXT, /exit. Piped input is one "
                            "message per line.",
                        .examples =
                            "gezel chat gemma3-270m  # talk\n"
                            "gezel chat  # with the default model\n"
                            "gezel chat gemma3-270m --system \"You answer in French.\"  # with a role\n"
                            "gezel chat smollm2-135m-instruct <questions.txt  # one answer per line",
                        .positionals = kPositionals,
                        .flags = kFlags,
                        .run = run};

}  // namespace gezel::cli
