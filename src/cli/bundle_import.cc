#include "cli/bundle_import.h"

#include <fmt/format.h>

#include <ostream>

#include "catalog/grammar.h"
#include "catalog/license.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "downloads/url.h"
#include "engine/quarantine.h"
#include "models/bundle_imports.h"
#include "service/model_entry.h"

namespace gezel::cli {
namespace {

// Shows how far the copy is.
class Shown final : public models::InstallObserver {
 public:
  Shown(StatusLine& status, downloads::Cancellation& cancellation)
      : status_(status), cancellation_(cancellation) {}
  void progress(const models::InstallProgressReport& report) override {
    if (Interrupt::raised()) cancellation_.cancel();
    status_.show(fmt::format("importing … {} of {}", format_bytes(report.bytes_written),
                             format_bytes(report.total_bytes)));
  }
  void retrying(const std::string&, const downloads::Retry&) override {}
  void verifying(const std::string&) override {}
  void extracting_metadata() override {}

 private:
  StatusLine& status_;
  downloads::Cancellation& cancellation_;
};

// Who looks and who imports: the daemon, or this program with the daemon's lock.
class Importer {
 public:
  virtual ~Importer() = default;
  virtual Result<json::object> scan(const std::string& path) = 0;                        // the review
  virtual Result<json::object> confirm(const std::string& import_id, bool replace) = 0;  // the model
  virtual void discard(const std::string& import_id) = 0;
};

class ByDaemon final : public Importer {
 public:
  ByDaemon(const Environment& env, DaemonClient client) : env_(env), client_(std::move(client)) {}
  Result<json::object> scan(const std::string& path) override {
    return ask("/api/model-bundles/imports/scan", {{"path", path}}, "checking");
  }
  Result<json::object> confirm(const std::string& import_id, bool replace) override {
    GEZEL_TRY(const json::object reply, ask("/api/model-bundles/imports/confirm",
                                            {{"importId", import_id}, {"replace", replace}}, "importing"));
    const auto* model = object_at(reply, "model");
    return model != nullptr ? *model : reply;
  }
  void discard(const std::string& import_id) override {
    static_cast<void>(client_.remove("/api/model-bundles/imports/" + downloads::percent_encoded(import_id)));
  }

 private:
  // Reading a large file takes minutes without a word, so there is no limit on silence.
  Result<json::object> ask(const std::string& target, const json::object& body, std::string_view what) const {
    StatusLine status(env_);
    const auto on_wait = [&](Millis waited) {
      if (waited > Millis(400)) status.show(fmt::format("{} … {} s", what, waited.count() / 1'000));
    };
    GEZEL_TRY(const json::value reply, client_.post(target, body, Millis(0), on_wait));
    if (!reply.is_object())
      return fail(ErrorKind::corrupt, std::string(kCodeBadReply), "The daemon did not say what it found");
    return reply.get_object();
  }

  const Environment& env_;
  DaemonClient client_;
};

class Here final : public Importer {
 public:
  Here(const Environment& env, service::InstanceLock lock)
      : env_(env),
        lock_(std::move(lock)),
        store_(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine),
        imports_(env.home, *env.clock, *env.entropy) {}
  Result<json::object> scan(const std::string& path) override {
    StatusLine status(env_);
    imports_.remove_stale({});
    const std::string id = new_uuid(*env_.entropy);
    GEZEL_CHECK(imports_.begin(id));
    GEZEL_TRY(const auto review,
              imports_.scan(id, path, store_, [&](models::ScanPhase, Bytes done, Bytes total) {
                status.show(fmt::format("checking … {} of {}", format_bytes(done), format_bytes(total)));
                return !Interrupt::raised();
              }));
    return models::review_json(review);
  }
  Result<json::object> confirm(const std::string& import_id, bool replace) override {
    StatusLine status(env_);
    downloads::Cancellation cancellation;
    Shown shown(status, cancellation);
    GEZEL_TRY(const auto model, imports_.confirm(import_id, replace, store_, shown, cancellation));
    engine::Quarantine quarantine(engine::quarantine_folder(env_.home), *env_.clock);
    if (const auto lifted = quarantine.clear(fmt::format("{}:{}", kLocalProvider, model.id)); !lifted)
      print_note(env_,
                 fmt::format("a quarantine of the model could not be lifted: {}", lifted.error().message));
    return service::import_entry(model);
  }
  void discard(const std::string& import_id) override { static_cast<void>(imports_.discard(import_id)); }

 private:
  const Environment& env_;
  service::InstanceLock lock_;
  models::ModelStore store_;
  models::BundleImports imports_;
};

Result<std::unique_ptr<Importer>> open_importer(const Environment& env) {
  if (service::find_daemon(env.home)) {
    GEZEL_TRY(auto client, DaemonClient::connect(env));
    return std::make_unique<ByDaemon>(env, std::move(client));
  }
  GEZEL_TRY(auto lock, service::InstanceLock::acquire(env.home));
  return std::make_unique<Here>(env, std::move(lock));
}

void show_review(const Environment& env, const json::object& review) {
  print_note(env, terminal_text(fmt::format(
                      "{} ({}), {}, made {} by {}", string_or(review, "name"), string_or(review, "id"),
                      format_bytes(static_cast<Bytes>(int_or(review, "approxSizeBytes", 0))),
                      string_or(review, "createdAt"), string_or(review, "createdBy"))));
  if (const auto* license = object_at(review, "license")) {
    print_note(env, terminal_text(catalog::license_line(
                        {.name = string_or(*license, "name", "unknown"),
                         .short_name = string_or(*license, "shortName", "unknown"),
                         .license_class = catalog::parse_license_class(string_or(*license, "class")),
                         .url = string_or(*license, "url")})));
  }
  if (const auto* warnings = array_at(review, "warnings")) {
    for (const auto& warning : *warnings) {
      if (warning.is_string()) print_note(env, terminal_text(std::string(warning.get_string())));
    }
  }
}

}  // namespace

Result<json::object> take_bundle(const Environment& env, const BundleToTake& bundle) {
  GEZEL_TRY(const auto importer, open_importer(env));
  GEZEL_TRY(json::object review, importer->scan(bundle.path));
  show_review(env, review);
  const std::string import_id = string_or(review, "importId");
  const auto agreed = bundle.agree ? bundle.agree(review) : Result<>();
  if (!agreed || bundle.dry_run) {
    importer->discard(import_id);
    if (!agreed) return std::unexpected(agreed.error());
    return review;
  }
  auto model = importer->confirm(import_id, bundle.replace);
  if (!model) importer->discard(import_id);
  return model;
}

bool is_bundle(std::string_view path) {
  return catalog::lowered(path).ends_with(models::kBundleExtension);
}

int import_bundle(Environment& env, const Arguments& arguments, const std::string& path) {
  for (const std::string_view flag : {"--id", "--name", "--mode"}) {
    if (!arguments.has(flag)) continue;
    return print_error(env,
                       {ErrorKind::invalid, std::string(kCodeUsage),
                        fmt::format("{} is for GGUF files; a bundle has its own", flag), std::string(flag)});
  }
  auto done = take_bundle(
      env, {.path = path, .replace = arguments.has("--replace"), .dry_run = arguments.has("--dry-run")});
  if (!done && Interrupt::raised())
    done = fail(ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted");
  if (!done) {
    if (done.error().code == "model_exists")
      done.error().message = "A model with this id is there already; --replace replaces it";
    return print_error(env, done.error());
  }
  if (arguments.has("--json")) {
    *env.out << to_json(*done) << '\n' << std::flush;
    return kOk;
  }
  if (arguments.has("--dry-run")) {
    print_note(env, "nothing was imported; without --dry-run it is");
    return kOk;
  }
  const std::string id = short_name(string_or(*done, "id"));
  *env.out << id << '\n' << std::flush;
  print_note(env, fmt::format("imported; ask it with: gezel run {} \"Hello\"", id));
  return kOk;
}

}  // namespace gezel::cli
