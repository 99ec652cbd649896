#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/doctor.h"
#include "cli/doctor_files.h"
#include "cli/doctor_speed.h"
#include "cli/engine_program.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "engine_llama/measured_speed.h"
#include "engine_llama/self_test_record.h"
#include "models/profile_files.h"
#include "models/store.h"
#include "system/memory_speed.h"

namespace gezel::cli {
namespace {

constexpr Millis kVersionLimit{20'000};
constexpr Millis kSelfTestLimit{900'000};

constexpr std::array kFlags{
    Flag{.name = "--deep",
         .help = "also compute with every kernel of the engine and check the SHA-256 of every model file; "
                 "takes minutes"},
    Flag{.name = "--json", .help = "print JSON"},
    Flag{.name = "--engine",
         .kind = Flag::Kind::text,
         .value = "PATH",
         .help = "the gezel-engine program (GEZEL_ENGINE; unset: beside this one)",
         .completes = Completes::file},
};

MachineFacts read_machine(const Environment& env) {
  MachineFacts facts{.cpu = system::read_cpu(),
                     .memory = system::read_memory(),
                     .gpus = system::find_gpus(),
                     .kernel = system::read_kernel()};
  // The home may not be there yet; its disk is that of the nearest folder that is.
  std::error_code error;
  fs::path folder = env.home;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const auto space = fs::space(folder, error);
  facts.disk_free = error ? 0 : space.available;
  return facts;
}

void add(Findings& all, Findings more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Result<Findings> check_engine(const Environment& env, const Arguments& arguments, const MachineFacts& machine,
                              bool has_home, json::object& engine_json) {
  const auto program = engine_program(env, arguments);
  if (!program) {
    return Findings{{"engine", "program", Verdict::failure, program.error().message, "make build"}};
  }
  auto version = ask_engine(*program, {"--version", "--json"}, kVersionLimit);
  if (!version) {
    if (version.error().code == kCodeInterrupted) return std::unexpected(version.error());
    return Findings{
        {"engine", "program", Verdict::failure, version.error().message, "make clean && make build"}};
  }
  Findings out = judge_engine(*version, env.version, machine);
  engine_json = std::move(*version);
  engine_json["program"] = program->string();
  if (!arguments.has("--deep")) return out;

  StatusLine status(env);
  status.show("self-testing the engine …");
  auto report = ask_engine(*program, {"--self-test"}, kSelfTestLimit);
  if (!report) {
    if (report.error().code == kCodeInterrupted) return std::unexpected(report.error());
    out.push_back(
        {"engine", "self-test", Verdict::failure, report.error().message, "make clean && make build"});
    return out;
  }
  add(out, judge_self_test(*report));
  // The daemon leaves out what failed here from the next load on.
  if (has_home) {
    if (const auto kept = engine_llama::remember_self_test(env.home, *program, machine.cpu.model, *report);
        !kept) {
      out.push_back({"engine", "self-test", Verdict::warning, kept.error().message, ""});
    }
  }
  engine_json["self_test"] = std::move(*report);
  return out;
}

// Whether a daemon runs is what its lock says: a pid that is left over may be another program's by now.
// Whether anybody gets in without a key: asks as such a caller would.
Findings check_daemon(const Environment& env) {
  const auto address = service::find_daemon(env.home);
  const bool locked = service::InstanceLock::is_held(env.home);
  if (!address) {
    return {{"daemon", "state", Verdict::note,
             locked ? fmt::format("one for {} is starting or ending", env.home.string())
                    : fmt::format("none runs for {}", env.home.string()),
             ""}};
  }
  const HttpClient nobody(address->port, "");
  const auto health = nobody.send({.target = "/health", .silence = Millis(5'000)});
  const auto value = health ? parse_json(health->body) : Result<json::value>(std::unexpected(health.error()));
  if (!value || !value->is_object()) {
    if (!locked) {
      return {
          {"daemon", "state", Verdict::note,
           fmt::format("none runs for {}; the files of one that did not end by itself are left over (process "
                       "{} is another program), and the next one replaces them",
                       env.home.string(), address->pid),
           ""}};
    }
    return {{"daemon", "state", Verdict::failure,
             fmt::format("pid {} should listen on port {} but does not answer: {}", address->pid,
                         address->port, value ? "no JSON" : value.error().message),
             fmt::format("kill -9 {}; the next `gezel run` starts a new one", address->pid)}};
  }
  const std::string version = string_or(value->get_object(), "version");
  Findings out{{"daemon", "state", Verdict::good,
                fmt::format("listens on http://127.0.0.1:{} (pid {}, version {})", address->port,
                            address->pid, version),
                ""}};
  if (version != env.version) {
    out.push_back({"daemon", "version", Verdict::warning,
                   fmt::format("it runs {}, this program is {}", version, env.version),
                   "gezel stop; the next `gezel run` starts the new one"});
  }
  const auto list = nobody.send({.target = "/v1/models", .silence = Millis(5'000)});
  if (list && list->status == 200) {
    out.push_back({"daemon", "access", Verdict::warning,
                   "every program on this machine may use it (--no-auth)", "start it without --no-auth"});
  } else {
    out.push_back({"daemon", "access", Verdict::good, "needs a key (`gezel key`)", ""});
  }
  if (const auto client = DaemonClient::connect(env)) {
    if (const auto ps = client->get("/api/ps"); ps && ps->is_object())
      add(out, judge_neighbour(ps->get_object()));
  }
  return out;
}

// With `deep`, reads and hashes every file. The store records what it finds, so that a damaged model is
// refused from then on; that is safe beside a daemon, because manifests are read again and replaced as a
// whole.
Result<Findings> check_models(const Environment& env, bool deep) {
  models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  const models::Inventory inventory = store.inventory();
  Findings out;
  Bytes total = 0;
  for (const auto& model : inventory.installed) total += model.size_bytes;
  if (inventory.installed.empty()) {
    out.push_back({"models", "installed", Verdict::note, fmt::format("none in {}", store.root().string()),
                   "gezel import FILE.gguf"});
  } else {
    out.push_back({"models", "installed", Verdict::good,
                   fmt::format("{}, {} together", inventory.installed.size(), format_bytes(total)), ""});
  }
  for (const auto& model : inventory.unrecognized) {
    out.push_back({"models", model.id, Verdict::warning, model.reason,
                   "put the file back, or import it again: gezel import FILE.gguf"});
  }
  for (const auto& model : inventory.installed) {
    const models::Integrity integrity = store.check(model);
    if (!deep) {
      if (integrity == models::Integrity::changed) {
        out.push_back({"models", model.id, Verdict::warning, "its files changed since they were checked",
                       "gezel doctor --deep"});
      }
      continue;
    }
    StatusLine status(env);
    const auto verified = store.verify(model, [&](Bytes bytes) {
      status.show(fmt::format("checking {} … {} of {}", model.id, format_bytes(bytes),
                              format_bytes(model.size_bytes)));
      return !Interrupt::raised();
    });
    if (!verified && Interrupt::raised()) {
      return fail(ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted");
    }
    out.push_back(
        {"models", model.id, verified ? Verdict::good : Verdict::failure,
         verified ? integrity == models::Integrity::unverified ? "SHA-256 recorded" : "SHA-256 as recorded"
                  : verified.error().message,
         verified ? "" : "fetch the file again, then: gezel import FILE.gguf"});
  }
  return out;
}

// What was measured of the models, beside what memory delivers now. Memory is measured only for a comparison.
Findings check_speeds(const Environment& env, const MachineFacts& machine, json::object& speed_json) {
  const models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  const auto measured = engine_llama::measured_speeds(env.home);
  std::vector<SpeedFacts> known;
  std::vector<std::string> unknown;
  json::array models;
  for (const auto& model : store.inventory().installed) {
    const auto speed = measured.find(fmt::format("{}:{}", kLocalProvider, model.id));
    if (speed == measured.end()) {
      unknown.push_back(model.id);
      continue;
    }
    SpeedFacts facts{.model = model.id,
                     .decode_tps = speed->second.decode_tps,
                     .shallow_tps = speed->second.shallow_tps,
                     .at_depth = speed->second.at_depth,
                     .kv_type = speed->second.kv_type,
                     .undisturbed = speed->second.undisturbed};
    // A file that cannot be read is named with the models.
    if (const auto bytes = engine_llama::bytes_of_a_token(model.weights, speed->second)) {
      facts.weights = bytes->weights;
      facts.cache = bytes->cache;
    }
    models.push_back({{"id", model.id},
                      {"decode_tps", facts.decode_tps},
                      {"at_depth", facts.at_depth},
                      {"bytes_per_token", facts.weights + facts.cache}});
    known.push_back(std::move(facts));
  }
  const int threads = machine.cpu.available;
  std::optional<double> memory_speed;
  if (!known.empty()) {
    StatusLine status(env);
    status.show("measuring memory …");
    memory_speed = system::measure_memory_speed(threads, machine.memory.available, *env.clock);
  }
  speed_json["memory_bytes_per_second"] = memory_speed ? json::value(*memory_speed) : json::value();
  speed_json["models"] = std::move(models);
  return judge_speeds(known, memory_speed, threads, unknown);
}

Findings check_profiles(const Environment& env) {
  const auto profiles = models::read_profiles(env.home);
  const auto own = std::ranges::count_if(profiles.all, &profiles::Profile::user);
  Findings out{{"profiles", "in use", Verdict::good,
                own == 0 ? fmt::format("{} shipped, none of your own", profiles.all.size())
                         : fmt::format("{}, {} of them yours or changed by you", profiles.all.size(), own),
                ""}};
  for (const auto& problem : profiles.problems) {
    out.push_back({"profiles", problem.file, Verdict::warning, "not used: " + problem.message,
                   fmt::format("correct or remove {}", (env.home / "profiles" / problem.file).string())});
  }
  return out;
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const MachineFacts machine = read_machine(env);
  Findings findings = judge_machine(machine);
  json::object engine_json;
  const auto home = check_home(env);
  auto engine = check_engine(env, arguments, machine, home.has_value(), engine_json);
  if (!engine) return print_error(env, engine.error());
  add(findings, std::move(*engine));
  add(findings, judge_backend(service::choose_engine_backend(env.gpu.backend, service::backend_host())));
  json::object gpu_json;
  if (const auto program = engine_program(env, arguments); home && program) {
    const auto survey = service::survey_this_machine(env.home, *program, env.version, env.clock->wall_now());
    add(findings, judge_survey(survey));
    gpu_json = service::survey_json(survey);
  }
  add(findings, judge_sandbox(machine.kernel));
  json::object speed_json;
  if (home) {
    add(findings, check_daemon(env));
    auto models = check_models(env, arguments.has("--deep"));
    if (!models) return print_error(env, models.error());
    add(findings, std::move(*models));
    add(findings, check_speeds(env, machine, speed_json));
    add(findings, check_profiles(env));
    add(findings, check_catalog(env.home, env.installs));
    add(findings, check_config(env.home));
  } else {
    findings.push_back({"models", "home", Verdict::failure, home.error().message,
                        "gezel doctor --home DIR, or set GEZEL_HOME"});
  }

  if (arguments.has("--json")) {
    json::object report = findings_json(findings);
    report["version"] = env.version;
    report["home"] = env.home.string();
    report["machine"] = facts_json(machine);
    report["engine"] = std::move(engine_json);
    report["gpu"] = std::move(gpu_json);
    report["speed"] = std::move(speed_json);
    *env.out << to_json(report) << '\n' << std::flush;
  } else {
    *env.out << render_findings(findings, color_out(env)) << std::flush;
  }
  return all_well(findings) ? kOk : kFailure;
}

}  // namespace

constexpr Command kDoctor{
    .name = "doctor",
    .summary = "check this machine, the engine, the daemon, models, profiles and the catalog",
    .description =
        "Says what this machine has, which processor features and accelerators the engine uses, how workers "
        "are locked down, how near measured models come to what memory delivers and what limits them, "
        "and what is missing together with the command that gets it. Exit status 1 when something must be "
        "repaired.",
    .examples =
        "gezel doctor  # a second\n"
        "gezel doctor --deep  # also compute with every kernel and read every model\n"
        "gezel doctor --json | jq '.findings[] | select(.verdict != \"ok\")'  # only what is not right",
    .positionals = {},
    .flags = kFlags,
    .run = run,
    .needs_home = false};

}  // namespace gezel::cli
