#include <fmt/format.h>

#include <array>
#include <ostream>

#include "base/utf8.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/generation_flags.h"
#include "cli/model_names.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

// Well below the 64 MiB a request may have: JSON escapes can make text several times longer.
constexpr Bytes kMaxPrompt = 16 * kMiB;

constexpr std::array kPositionals{
    Positional{.name = "MODEL",
               .help =
                   "which model answers; see `gezel models`. Left out (a first word with a blank in it is no "
                   "model): the default one, see `gezel default`",
               .required = false,
               .completes = Completes::model},
    Positional{.name = "PROMPT",
               .help = "what to ask; piped input is added after it, or is the prompt when this is left out; "
                       "a last - waits "
                       "for input however long it takes",
               .required = false,
               .repeats = true},
};
constexpr std::array kFlags{
    kSystemFlag,
    kMaxTokensFlag,
    kTemperatureFlag,
    kSeedFlag,
    Flag{.name = "--json", .help = "print the API's whole reply as JSON instead of streaming text"},
    Flag{.name = "-v,--verbose",
         .help = "afterwards say how many tokens it took and how fast it was (standard error)"},
};

// The words of the command line, then what is piped in. A program that calls us may have left a pipe open
// that nobody ever writes to. With a prompt in hand that is not worth waiting for, unless the prompt ends in
// '-'.
Result<std::string> prompt_text(const Environment& env, std::vector<std::string> words) {
  const bool asked_for_input = !words.empty() && words.back() == "-";
  if (asked_for_input) words.pop_back();
  std::string prompt = fmt::format("{}", fmt::join(words, " "));
  if (asked_for_input || (!env.input_is_terminal && has_piped_input(env.input))) {
    const bool must_wait = asked_for_input || prompt.empty();
    GEZEL_TRY(const std::string piped, read_input(env.input, kMaxPrompt, [&] {
                print_note(env,
                           must_wait
                               ? "reading standard input until it ends"
                               : "nothing comes from standard input; going on without it (a last argument - "
                                 "waits for it)");
                return must_wait;
              }));
    if (!prompt.empty() && !piped.empty()) prompt += "\n\n";
    prompt += piped;
  }
  if (prompt.find_first_not_of(" \t\r\n") == std::string::npos) {
    return fail(
        ErrorKind::invalid, std::string(kCodeUsage),
        "PROMPT is missing. Give it as an argument or pipe it in; `gezel chat MODEL` opens a conversation");
  }
  if (const auto bad = find_invalid_utf8(prompt)) {
    return fail(
        ErrorKind::invalid, "invalid_utf8",
        fmt::format(
            "The prompt is not UTF-8 text: byte {} begins no character. Convert it first, for example "
            "with `iconv -f LATIN1 -t UTF-8`",
            *bad));
  }
  return prompt;
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  std::string model = arguments.text("MODEL");
  std::vector<std::string> words = arguments.all("PROMPT");
  // No id has a blank, so this is the question already.
  if (model.find_first_of(" \t\n") != std::string::npos) {
    words.insert(words.begin(), std::move(model));
    model.clear();
  }
  const auto prompt = prompt_text(env, std::move(words));
  if (!prompt) return print_error(env, prompt.error());
  const auto target = open_model(env, model);
  if (!target) return print_error(env, target.error());

  json::object body = generation_body(target->model, arguments);
  json::array messages;
  if (arguments.has("--system"))
    messages.push_back({{"role", "system"}, {"content", arguments.text("--system")}});
  messages.push_back({{"role", "user"}, {"content", *prompt}});
  body["messages"] = std::move(messages);

  if (arguments.has("--json")) {
    const auto reply = target->client.post("/v1/chat/completions", body, Millis(0));
    if (!reply) return print_error(env, reply.error());
    *env.out << to_json(*reply) << '\n' << std::flush;
    return kOk;
  }
  Answer answer;
  bool template_said = false;
  const auto outcome =
      print_answer(env, target->client, target->model, std::move(body), template_said, answer);
  if (!outcome) return print_error(env, outcome.error());
  if (arguments.has("--verbose")) print_note(env, describe_figures(answer));
  if (answer.finish_reason == "length")
    print_note(env, "the answer was cut at its limit of tokens (--max-tokens)");
  return kOk;
}

}  // namespace

constexpr Command kRun{
    .name = "run",
    .summary = "ask a model one question and stream its answer",
    .description =
        "Starts the daemon in the background when none runs, loads the model when it is not loaded, and "
        "prints the answer as "
        "it is made. Ctrl-C stops it.",
    .examples =
        "gezel run smollm2-135m-instruct \"Why is the sky blue?\"  # one answer\n"
        "gezel run \"Why is the sky blue?\"  # from the default model\n"
        "gezel run gemma3-270m \"Summarise this:\" <report.txt  # with a file\n"
        "git diff | gezel run gemma3-270m \"Write a commit message.\"  # with another program's output\n"
        "gezel run gemma3-270m --temperature 0 --seed 1 \"Say hi.\"  # the same answer every time\n"
        "gezel run gemma3-270m --json \"Say hi.\" | jq .usage  # for scripts",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
