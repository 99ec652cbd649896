// The install is the daemon's; this program asks for it and shows how far it is.
#include <fmt/format.h>

#include <array>
#include <ostream>

#include "catalog/license.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/pull_progress.h"
#include "cli/sse.h"
#include "downloads/url.h"
#include "models/url_source.h"
#include "service/install_settings.h"

namespace gezel::cli {
namespace {

constexpr int kPlainStep = 10;  // percent between lines where there is no terminal

constexpr std::array kPositionals{
    Positional{.name = "MODEL",
               .help = "an id of the catalog (`gezel models --available`), hf:ORG/REPO[@REVISION][:QUANT or "
                       "FILE], or the "
                       "https address of a GGUF file",
               .completes = Completes::available_model},
};
constexpr std::array kFlags{
    Flag{.name = "--update", .help = "also when it is installed: bring it to the catalog's newest version"},
    Flag{.name = "--copy",
         .help = "also when this machine's own store supplies it: install a copy of your own"},
    Flag{.name = "--id",
         .kind = Flag::Kind::text,
         .value = "ID",
         .help = "of hf: and addresses: what to call it (unset: local- and the file's name)"},
    Flag{.name = "--sha256",
         .kind = Flag::Kind::text,
         .value = "HEX",
         .help = "of an address: the digest that the file must have (unset: it is recorded, not checked)"},
    Flag{.name = "--mirrors",
         .kind = Flag::Kind::text,
         .value = "URLS",
         .help =
             "base addresses, separated by commas, of hosts with the same files; tried in order where the "
             "first does not answer"},
    Flag{.name = "--detach", .help = "start the download and return; `gezel pull MODEL` shows it again"},
    Flag{.name = "--json", .help = "print what happens as one JSON object a line"},
};

bool is_network_name(std::string_view argument) {
  return argument.starts_with("hf:") || models::is_url(argument);
}

// What ensure takes: providers, the hub and addresses are named, everything else is of this machine's engine.
std::string ensure_name(const std::string& argument) {
  if (models::is_url(argument)) return argument;
  for (const std::string_view prefix : {"hf:", "llama-cpp:", "mlx:", "ds4:", "sd-cpp:"}) {
    if (argument.starts_with(prefix)) return argument;
  }
  const std::string slashed = fmt::format("{}/", kLocalProvider);
  if (argument.starts_with(slashed))
    return fmt::format("{}:{}", kLocalProvider, argument.substr(slashed.size()));
  return fmt::format("{}:{}", kLocalProvider, argument);
}

std::string install_target(std::string_view qualified) {
  return fmt::format("/api/{}/models/{}/install", kLocalProvider,
                     downloads::percent_encoded(short_name(qualified)));
}

// Shows the events of one install.
class Viewer {
 public:
  Viewer(const Environment& env, bool json) : env_(env), json_(json), status_(env) {}

  // False: the install is over, or the event cannot be read.
  bool take(const SseEvent& sse) {
    if (sse.data.empty()) return true;  // a sign of life
    const auto parsed = parse_json(sse.data);
    if (!parsed || !parsed->is_object()) {
      outcome_ = fail(ErrorKind::corrupt, std::string(kCodeBadReply),
                      "The daemon sent an event that is not a JSON object");
      return false;
    }
    const json::object& event = parsed->get_object();
    if (json_) *env_.out << to_json(event) << '\n' << std::flush;
    model_ = string_or(event, "modelId", model_);
    job_ = string_or(event, "jobId", job_);
    const std::string type = string_or(event, "type");
    if (type == "done") {
      warning_ = string_or(event, "warning");
      over_ = true;
    } else if (type == "error") {
      outcome_ = std::unexpected(
          Error{ErrorKind::internal, string_or(event, "code"), string_or(event, "error"), "model"});
      over_ = true;
    } else if (!json_) {
      show(type, event);
    }
    return !over_;
  }

  void clear() { status_.clear(); }
  bool over() const { return over_; }
  const Result<>& outcome() const { return outcome_; }
  const std::string& model() const { return model_; }
  const std::string& job() const { return job_; }  // "" until the first event
  const std::string& warning() const { return warning_; }

 private:
  void show(const std::string& type, const json::object& event) {
    if (type == "progress") {
      const auto written = static_cast<Bytes>(int_or(event, "bytesWrittenAll", 0));
      const auto total = static_cast<Bytes>(int_or(event, "totalBytesAll", 0));
      rate_.add(env_.clock->now(), written);
      const std::string line = progress_line(written, total, rate_.bytes_per_second(), env_.columns);
      status_.show(line);
      const int percent = total > 0 ? static_cast<int>(written * 100 / total) : 0;
      if (!env_.err_is_terminal && percent >= next_plain_) {
        print_note(env_, line);
        next_plain_ = percent / kPlainStep * kPlainStep + kPlainStep;
      }
      return;
    }
    if (type == "verifying") return say("checking the SHA-256 of " + string_or(event, "file", "the file"));
    if (type == "extracting-metadata") return say("reading the model's header");
    if (type == "retrying") {
      status_.clear();
      print_note(env_, terminal_text(fmt::format(
                           "{} Trying again in {} s (attempt {} of {})", string_or(event, "reason"),
                           (int_or(event, "delayMs", 0) + 999) / 1'000, int_or(event, "attempt", 0),
                           int_or(event, "maxAttempts", 0))));
    }
  }

  void say(std::string_view text) {
    if (env_.err_is_terminal) {
      status_.show(text);
    } else {
      print_note(env_, text);
    }
  }

  const Environment& env_;
  const bool json_;
  StatusLine status_;
  Rate rate_;
  int next_plain_ = 0;
  bool over_ = false;
  Result<> outcome_;
  std::string model_, job_, warning_;
};

// What somebody agrees to by using it, before a byte of it is fetched. A model that is installed already, or
// that nobody knows, is the business of the request itself.
void show_license(const Environment& env, const DaemonClient& client, const std::string& model, bool update) {
  if (is_network_name(model)) {
    print_note(env, catalog::license_line(catalog::unknown_license()) + "; the page it comes from says more");
    return;
  }
  const auto entry = client.get("/v1/models/" + downloads::percent_encoded(model));
  const auto* object = entry ? entry->if_object() : nullptr;
  const auto* shown = object == nullptr ? nullptr : object_at(*object, "license");
  if (shown == nullptr || (!update && string_or(*object, "availability") != "downloadable")) return;
  print_note(env, terminal_text(catalog::license_line(
                      {.name = string_or(*shown, "name", "unknown"),
                       .short_name = string_or(*shown, "shortName", "unknown"),
                       .license_class = catalog::parse_license_class(string_or(*shown, "class")),
                       .url = string_or(*shown, "url")})));
}

// Nothing: it is installed already.
struct Begun {
  std::string model, job;
};
Result<Begun> ask_for(const Environment& env, const DaemonClient& client, const json::object& wanted) {
  StatusLine status(env);
  const std::string model = terminal_text(string_or(wanted, "model"));
  const auto on_wait = [&](Millis waited) {
    if (waited > Millis(400))
      status.show(fmt::format("looking for {} … {} s", model, waited.count() / 1'000));
  };
  GEZEL_TRY(const json::value reply, client.post("/v1/models/ensure", wanted, Millis(120'000), on_wait));
  if (!reply.is_object())
    return fail(ErrorKind::corrupt, std::string(kCodeBadReply),
                "The daemon did not say what became of the install");
  return Begun{string_or(reply.get_object(), "model_id"), string_or(reply.get_object(), "job_id")};
}

int stopped(const Environment& env, const DaemonClient& client, const std::string& argument,
            const std::string& model) {
  // The second Ctrl-C ends the program, so this must not take long.
  Interrupt::clear();
  const auto reply = client.remove(install_target(model), Millis(5'000));
  if (!reply) {
    print_note(env, fmt::format("the download could not be stopped ({}) and may go on in the daemon",
                                reply.error().message));
  } else {
    print_note(
        env,
        fmt::format("the download is stopped; what arrived is kept, and `gezel pull {}` goes on from there",
                    argument));
  }
  return kInterrupted;
}

int finish(const Environment& env, const std::string& model, bool json) {
  if (json) return kOk;
  const std::string id = short_name(model);
  *env.out << id << '\n' << std::flush;
  print_note(env, fmt::format("installed; ask it with: gezel run {} \"Hello\"", id));
  return kOk;
}

int detached(const Environment& env, const std::string& argument, const Begun& begun, bool json) {
  if (json)
    *env.out << to_json(json::object{{"type", "started"}, {"modelId", begun.model}, {"jobId", begun.job}})
             << '\n';
  print_note(env, fmt::format("the daemon downloads {}; `gezel pull {}` shows it", short_name(begun.model),
                              argument));
  return kOk;
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const std::string argument = arguments.text("MODEL");
  const std::string wanted = ensure_name(argument);
  const bool json = arguments.has("--json"), copy = arguments.has("--copy"),
             update = copy || arguments.has("--update"), detach = arguments.has("--detach");
  if (update && !wanted.starts_with(fmt::format("{}:", kLocalProvider))) {
    return print_error(env, {ErrorKind::invalid, std::string(kCodeUsage),
                             fmt::format("{} is for models of the catalog; '{}' is none",
                                         copy ? "--copy" : "--update", argument),
                             "MODEL"});
  }
  json::object request{{"model", wanted}};
  for (const std::string_view field : {"id", "sha256"}) {
    const std::string flag = fmt::format("--{}", field);
    if (!arguments.has(flag)) continue;
    if (!is_network_name(argument)) {
      return print_error(
          env, {ErrorKind::invalid, std::string(kCodeUsage),
                fmt::format("{} is for hf: and addresses; '{}' has its own", flag, argument), "MODEL"});
    }
    request[field] = arguments.text(flag);
  }
  if (arguments.has("--mirrors")) {
    if (update) {
      return print_error(
          env,
          {ErrorKind::invalid, std::string(kCodeUsage),
           "--mirrors is for a first install; --update and --copy use the catalog's hosts", "--mirrors"});
    }
    request["mirrors"] = json::value_from(service::read_address_list(arguments.text("--mirrors")));
  }
  const auto client = DaemonClient::connect_or_start(env);
  if (!client) return print_error(env, client.error());

  show_license(env, *client, wanted, update);
  Begun begun{wanted, ""};
  if (!update) {
    auto asked = ask_for(env, *client, request);
    if (!asked) return print_error(env, asked.error());
    begun = std::move(*asked);
    if (begun.job.empty()) {
      if (json) {
        *env.out << to_json(json::object{{"type", "ready"}, {"modelId", begun.model}}) << '\n' << std::flush;
        return kOk;
      }
      *env.out << short_name(begun.model) << '\n' << std::flush;
      print_note(env, is_network_name(argument)
                          ? "it is installed already, as what you named has it now"
                          : "it is installed already; --update brings it to the catalog's newest version");
      return kOk;
    }
    if (detach) return detached(env, argument, begun, json);
  }

  Viewer viewer(env, json && !detach);
  SseReader reader;
  Result<> broken;
  bool begins = false;
  const StreamHooks hooks{.on_piece = [&](std::string_view piece) {
    auto fed = reader.feed(piece, [&](const SseEvent& event) {
      begins = true;
      return viewer.take(event) && !detach;
    });
    if (!fed) broken = std::move(fed);
    // With the first sign of life the update is the daemon's, even while it waits for others.
    return broken.has_value() && viewer.outcome().has_value() && !viewer.over() && !(detach && begins);
  }};
  const auto reply = update ? client->stream(install_target(wanted) + (copy ? "?copy=1" : ""), {}, hooks)
                            : client->watch(fmt::format("/v1/models/ensure/{}/events", begun.job), hooks);
  viewer.clear();
  if (!reply && reply.error().code == kCodeInterrupted) return stopped(env, *client, argument, begun.model);
  if (!viewer.outcome()) return print_error(env, viewer.outcome().error());
  if (!broken) return print_error(env, broken.error());
  if (!reply) return print_error(env, reply.error());
  if (detach && begins && !viewer.over()) {
    begun = {viewer.model(), viewer.job()};
    if (begun.job.empty()) {  // ensure joins it
      auto asked = ask_for(env, *client, request);
      if (!asked) return print_error(env, asked.error());
      begun = std::move(*asked);
    }
    return begun.job.empty() ? finish(env, begun.model, json) : detached(env, argument, begun, json);
  }
  if (!viewer.over()) {
    return print_error(
        env, {ErrorKind::unavailable, std::string(kCodeLost),
              fmt::format("The daemon stopped before the install ended; what arrived is kept, and `gezel "
                          "pull {}` goes on from there",
                          argument),
              "model"});
  }
  if (!viewer.warning().empty()) print_note(env, terminal_text(viewer.warning()));
  return finish(env, viewer.model().empty() ? begun.model : viewer.model(), json);
}

}  // namespace

constexpr Command kPull{
    .name = "pull",
    .summary = "download and install a model",
    .description =
        "Takes a model of the catalog, one file of a repository of the hub (hf:), or the GGUF file at an "
        "https address, of which the header is looked at first. Every byte is checked against the SHA-256 "
        "that "
        "the catalog, the hub or --sha256 has for it. A download that stopped goes on where it was. "
        "Ctrl-C stops the "
        "download; with --detach the daemon does it alone.",
    .examples =
        "gezel pull qwen3.5-2b-q4  # from the catalog: `gezel models --available`\n"
        "gezel pull hf:unsloth/Qwen3-0.6B-GGUF:Q4_K_M  # from a repository, by quantization\n"
        "gezel pull https://example.org/models/notes.gguf --id notes  # from any address\n"
        "gezel pull qwen3.5-2b-q4 --update  # the newest version of an installed model\n"
        "gezel pull qwen3.5-2b-q4 --json | jq .bytesWritten  # for a script",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
