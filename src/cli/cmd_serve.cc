#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/log.h"
#include "capacity/budget.h"
#include "capacity/kv_size.h"
#include "cli/command.h"
#include "cli/engine_program.h"
#include "cli/printer.h"
#include "prompt/behaviors.h"

namespace gezel::cli {
namespace {

constexpr int kHighestPort = 65'535;
constexpr int kLongestQuietMs = 86'400'000;
constexpr int kTargetItlMsLow = 10, kTargetItlMsHigh = 1'000;  // spec 40 section 11.19

constexpr std::array kFlags{
    Flag{.name = "--port",
         .kind = Flag::Kind::integer,
         .value = "PORT",
         .help = "listen on exactly this port of 127.0.0.1; 0 = any free one (GEZEL_PORT; unset: 6228, or a "
                 "free one "
                 "when it is taken)",
         .high = kHighestPort},
    Flag{.name = "--no-auth", .help = "let every program on this machine in without a key"},
    Flag{.name = "--slots",
         .kind = Flag::Kind::integer,
         .value = "N",
         .help = "requests a model answers at the same time (unset: 8, fewer where memory is short)",
         .low = 1,
         .high = 256},
    Flag{.name = "--ctx",
         .kind = Flag::Kind::integer,
         .value = "TOKENS",
         .help = "window of each request (unset: what the model was trained for, at most 8192, less where "
                 "memory is short)",
         .low = 256,
         .high = 16'777'216},
    Flag{.name = "--threads",
         .kind = Flag::Kind::integer,
         .value = "N",
         .help = "threads each model computes with (unset: one per core that we may use)",
         .low = 1,
         .high = 1'024},
    Flag{.name = "--flash-attn",
         .kind = Flag::Kind::text,
         .help = "whether flash attention is used (unset: whatever is faster here)",
         .choices = "on|off",
         .completes = Completes::choice},
    Flag{
        .name = "--kv-type",
        .kind = Flag::Kind::text,
        .help =
            "element type of the KV cache (unset: f16); q8_0 takes half the memory and needs flash attention",
        .choices = "f16|q8_0",
        .completes = Completes::choice},
    Flag{.name = "--target-itl",
         .kind = Flag::Kind::integer,
         .value = "MS",
         .help =
             "how long a token of a running answer may take while other prompts are read; less is smoother, "
             "more reads prompts faster (GEZEL_TARGET_ITL_MS; unset: 115)",
         .low = kTargetItlMsLow,
         .high = kTargetItlMsHigh},
    Flag{.name = "--idle-timeout",
         .kind = Flag::Kind::integer,
         .value = "SECONDS",
         .help = "unload a model that nobody used for so long; 0 = never (unset: 300)",
         .high = 31'536'000},
    Flag{.name = "--model-dir",
         .kind = Flag::Kind::text,
         .value = "DIR[:DIR...]",
         .help = "folders with models of your own, used where they lie (also GEZEL_MODEL_DIRS, and modelDirs "
                 "of config.json)",
         .completes = Completes::folder},
    Flag{.name = "--good-neighbour",
         .kind = Flag::Kind::text,
         .help = "auto: models take half the threads and a low priority while other programs want the "
                 "processors (GEZEL_GOOD_NEIGHBOUR; unset: auto)",
         .choices = "off|auto",
         .completes = Completes::choice},
    Flag{.name = "--no-calibration",
         .help = "do not measure models while they are idle, and use nothing that was measured "
                 "(GEZEL_CALIBRATION=off)"},
    Flag{.name = "--no-speculation",
         .help = "compute every token alone, never check guesses of several at once (GEZEL_SPECULATION=off)"},
    Flag{.name = "--draft-model",
         .kind = Flag::Kind::text,
         .value = "MODEL",
         .help =
             "a small model that guesses for the others, by id or absolute path; those whose vocabulary it "
             "does not share answer without it (GEZEL_DRAFT_MODEL; llamaCppDraftModelPath of config.json)",
         .completes = Completes::model},
    Flag{.name = "--no-disk-cache",
         .help = "do not write computed prompts to disk; after a restart they are computed again "
                 "(embeddedDiskCache of config.json)"},
    Flag{
        .name = "--no-replay-store",
        .help =
            "do not keep what models wrote for their tool calls; conversations with calls then reuse less of "
            "what was computed"},
    Flag{.name = "--log-format",
         .kind = Flag::Kind::text,
         .help = "how the log is written (unset: text on a terminal, json otherwise)",
         .choices = "auto|text|json",
         .completes = Completes::choice},
    Flag{.name = "--log-level",
         .kind = Flag::Kind::text,
         .help = "what is logged (unset: info)",
         .choices = "debug|info|warn|error",
         .completes = Completes::choice},
    Flag{.name = "--engine",
         .kind = Flag::Kind::text,
         .value = "PATH",
         .help = "the gezel-engine program (GEZEL_ENGINE; unset: beside this one)",
         .completes = Completes::file},
    Flag{.name = "--shutdown-on-stdin-eof",
         .help = "end when standard input ends, for programs that start the daemon "
                 "(GEZEL_SHUTDOWN_ON_STDIN_EOF=1)"},
};

// A setting from a variable of the environment, or none. One that is no such number is an error that names
// it.
Result<std::optional<int>> integer_variable(std::string_view variable, const std::string& text, int low,
                                            int high) {
  if (text.empty()) return std::nullopt;
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < low || number > high) {
    return fail(
        ErrorKind::invalid, std::string(kCodeUsage),
        fmt::format("{} is '{}'; it must be a whole number from {} to {}", variable, text, low, high));
  }
  return number;
}

// The same from a flag, which was checked, if it is given.
Result<std::optional<int>> integer_setting(const Arguments& arguments, std::string_view flag,
                                           std::string_view variable, const std::string& text, int low,
                                           int high) {
  if (const auto given = arguments.integer(flag)) return static_cast<int>(*given);
  return integer_variable(variable, text, low, high);
}

// Unless it is switched off. A variable that says neither is ignored and named.
void set_good_neighbour(Environment& env, const Arguments& arguments, service::ServiceOptions& out) {
  const std::string& variable = env.good_neighbour;
  const std::string word = arguments.has("--good-neighbour") ? arguments.text("--good-neighbour") : variable;
  out.good_neighbour = word != "off";
  if (!variable.empty() && variable != "off" && variable != "auto")
    print_note(env, fmt::format("GEZEL_GOOD_NEIGHBOUR is '{}', which is neither off nor auto; it is ignored",
                                variable));
  if (const auto trial = service::parse_neighbour_trial(env.neighbour_trial)) out.neighbour_trial = *trial;
}

// Unless a flag or a variable switches it off. A variable that says something else is ignored and named.
bool is_on(const Environment& env, const Arguments& arguments, std::string_view flag,
           std::string_view variable, const std::string& value) {
  if (!value.empty() && value != "off" && value != "on")
    print_note(env, fmt::format("{} is '{}', which is neither on nor off; it is ignored", variable, value));
  return !arguments.has(flag) && value != "off";
}

LogOptions log_options(const Arguments& arguments) {
  LogOptions options;
  const std::string format = arguments.text("--log-format"), level = arguments.text("--log-level");
  if (format == "text") options.format = LogFormat::text;
  if (format == "json") options.format = LogFormat::json;
  if (level == "debug") options.level = LogLevel::debug;
  if (level == "warn") options.level = LogLevel::warn;
  if (level == "error") options.level = LogLevel::error;
  return options;
}

int run(Environment& env, const Arguments& arguments) {
  const auto port = integer_setting(arguments, "--port", "GEZEL_PORT", env.port, 0, kHighestPort);
  if (!port) return print_error(env, port.error());
  const auto target_itl_ms = integer_setting(arguments, "--target-itl", "GEZEL_TARGET_ITL_MS",
                                             env.target_itl_ms, kTargetItlMsLow, kTargetItlMsHigh);
  if (!target_itl_ms) return print_error(env, target_itl_ms.error());
  auto engine = engine_program(env, arguments);
  if (!engine) return print_error(env, engine.error());

  if (const auto addresses = service::check_addresses(env.installs); !addresses)
    return print_error(env, addresses.error());

  const auto own_dirs = service::read_model_dirs(arguments.text("--model-dir"), "--model-dir");
  if (!own_dirs) return print_error(env, own_dirs.error());
  const auto set_dirs = service::read_model_dirs(env.model_dirs, "GEZEL_MODEL_DIRS");
  if (!set_dirs) return print_error(env, set_dirs.error());

  http::DaemonOptions options;
  options.service.installs = env.installs;
  options.service.installs.discovery_roots.user_folders = service::join_model_dirs(*own_dirs, *set_dirs);
  if (*port) options.port = static_cast<std::uint16_t>(**port);
  options.no_auth = arguments.has("--no-auth");
  options.shutdown_on_stdin_eof = env.shutdown_on_stdin_eof || arguments.has("--shutdown-on-stdin-eof");
  options.service.home = env.home;
  options.service.engine_program = *engine;
  options.service.version = env.version;
  if (const auto slots = arguments.integer("--slots")) options.service.slots = static_cast<int>(*slots);
  options.service.context = arguments.integer("--ctx");
  if (const auto threads = arguments.integer("--threads"))
    options.service.threads = static_cast<int>(*threads);
  options.service.target_itl_ms = *target_itl_ms;
  options.service.memory_budget = capacity::parse_gib(env.capacity_budget_gb);
  if (!env.capacity_budget_gb.empty() && !options.service.memory_budget)
    print_note(env, fmt::format(
                        "GEZEL_CAPACITY_BUDGET_GB is '{}', which is no positive number of GiB; it is ignored",
                        env.capacity_budget_gb));
  const auto quiet = integer_variable("GEZEL_AMBIENT_QUIET_MS", env.ambient_quiet_ms, 0, kLongestQuietMs);
  if (!quiet) print_note(env, quiet.error().message + "; it is ignored");
  if (quiet && *quiet) options.service.ambient_quiet = Millis(**quiet);
  set_good_neighbour(env, arguments, options.service);
  options.service.calibration =
      is_on(env, arguments, "--no-calibration", "GEZEL_CALIBRATION", env.calibration);
  options.service.speculation =
      is_on(env, arguments, "--no-speculation", "GEZEL_SPECULATION", env.speculation);
  options.service.draft.model =
      arguments.has("--draft-model") ? arguments.text("--draft-model") : env.draft_model;
  options.service.gpu = env.gpu;
  for (const auto& problem : env.ignored_variables) print_note(env, problem + "; it is ignored");
  options.service.behaviors = {prompt::read_id_list(env.force_behaviors),
                               prompt::read_id_list(env.remove_behaviors)};
  if (arguments.has("--kv-type"))
    options.service.kv_type = capacity::parse_kv_type(arguments.text("--kv-type"));
  if (arguments.has("--flash-attn")) options.service.flash_attention = arguments.text("--flash-attn") == "on";
  if (const auto seconds = arguments.integer("--idle-timeout"))
    options.service.idle_timeout = Millis(*seconds * 1'000);
  options.service.replay_store = !arguments.has("--no-replay-store");
  if (arguments.has("--no-disk-cache")) options.service.prompt_cache.disk = false;
  options.service.prompt_cache.off = env.kv_mode == "none";
  if (!env.kv_mode.empty() && env.kv_mode != "none" && env.kv_mode != "auto")
    print_note(env, fmt::format("GEZEL_KV_MODE is '{}'; it may be auto or none; it is ignored", env.kv_mode));
  options.service.prompt_cache.verify = env.kv_verify == "1";
  if (!env.kv_verify.empty() && env.kv_verify != "0" && env.kv_verify != "1")
    print_note(env, fmt::format("GEZEL_KV_VERIFY is '{}'; it may be 0 or 1; it is ignored", env.kv_verify));
  setup_logging(log_options(arguments));
  for (const auto& problem : prompt::problems_of(options.service.behaviors)) log_warn(problem);
  return env.serve(options);
}

}  // namespace

constexpr Command kServe{.name = "serve",
                         .summary = "run the daemon in this terminal",
                         .description =
                             "Serves the OpenAI API on 127.0.0.1 until Ctrl-C or `gezel stop`. Models are "
                             "loaded when a request asks for them "
                             "and unloaded when nobody uses them. One daemon runs per home folder.",
                         .examples =
                             "gezel serve  # port 6228, log on this terminal\n"
                             "gezel serve --port 0 --home /tmp/gezel  # a second daemon, any free port\n"
                             "gezel serve --slots 2 --ctx 16384  # fewer requests at a time, longer ones\n"
                             "curl http://127.0.0.1:6228/health  # is it up?",
                         .positionals = {},
                         .flags = kFlags,
                         .run = run};

}  // namespace gezel::cli
