// Installs and deletions.
#include <fmt/format.h>

#include "base/log.h"
#include "engine/on_pool.h"
#include "engine/quarantine.h"
#include "models/ensure.h"
#include "models/ids.h"
#include "models/mirrors.h"
#include "models/owner.h"
#include "models/shared_models.h"
#include "models/updates.h"
#include "service/core_installs.h"
#include "service/service_core.h"

namespace gezel::service {

using catalog::Backend;
using engine::on_pool;

namespace {

constexpr int kBusyRetrySeconds = 30;

api::ApiError no_such_job(const std::string& job_id) {
  return api::not_found(
      "job_not_found",
      fmt::format("there is no install \"{}\"; finished ones are forgotten after {} min. POST "
                  "/v1/models/ensure says whether the model is there",
                  job_id.substr(0, 64), models::kKeepFinished.count() / 60'000));
}

// What a request comes to: nothing to do, or a plan.
struct Wanted {
  catalog::QualifiedId id;
  std::optional<models::InstallPlan> plan;  // nothing: it is installed
};

Result<Wanted> look_up(const std::string& model, const InstallParts& parts, const models::ModelStore& store,
                       bool include_projector,
                       const std::function<bool(Backend, std::string_view)>& installed) {
  GEZEL_TRY(const auto ensured, models::check_ensure(model, *parts.catalog, parts.host, installed));
  Wanted out{ensured.id, std::nullopt};
  if (ensured.ready || ensured.id.backend != Backend::llama_cpp) return out;
  // An update keeps what somebody asked for; so does the repair of a model whose files are missing.
  const auto there = store.recorded(ensured.id.id);
  include_projector =
      include_projector || (there && there->model.source == "catalog" && !there->model.projector.empty());
  GEZEL_TRY(out.plan, models::plan_install(*ensured.resolved, ensured.id.backend,
                                           {.hub = parts.hub, .include_projector = include_projector}));
  return out;
}

catalog::License license_of(const models::InstalledModel& model, const catalog::Catalog& catalog) {
  const auto id = catalog.normalise(model.catalog_id.empty() ? model.id : model.catalog_id);
  if (!id) return catalog::unknown_license();
  const auto item = catalog.get(catalog::Kind::chat_model, *id);
  return item ? catalog::license_of(*item->item) : catalog::unknown_license();
}

json::object installed_row(const models::InstalledModel& model, const models::Drift& drift,
                           const catalog::License& license) {
  json::object row{{"id", model.id},
                   {"name", model.name},
                   {"installedAt", model.installed_at},
                   {"source", model.source},
                   {"sizeBytes", model.size_bytes},
                   {"weightsFilename", model.weights.filename().string()},
                   {"architecture", model.architecture},
                   {"quantization", model.quantization},
                   {"contextWindow", model.context_window},
                   {"chatTemplatePresent", model.chat_template_present},
                   {"readOnly", model.read_only},
                   {"updateAvailable", drift.update_available},
                   {"license", license_json(license)}};
  const auto put = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) row[key] = value;
  };
  put("mmprojFilename", model.projector.filename().string());
  put("draftModelFilename", model.draft.filename().string());
  put("catalogId", model.catalog_id);
  put("catalogVersion", model.catalog_version);
  put("huggingfaceRepo", model.repository);
  put("revision", model.revision);
  put("availableVersion", drift.available_version);
  put("updateReason", drift.reason);
  return row;
}

}  // namespace

api::ApiError install_error(const Error& error) {
  api::ApiError out = api::from_error(error);
  if (error.kind == ErrorKind::io || error.kind == ErrorKind::internal) out.code = "ensure_failed";
  if (error.code == "too_many_installs") out.retry_after_s = kBusyRetrySeconds;
  // What is damaged is the hub's answer, not the request.
  if (error.code == "bad_listing") {
    out.status = 502;
    out.type = "server_error";
  }
  return out;
}

api::ApiError unsupported_backend(std::string_view model) {
  return api::invalid_request(
      "unsupported_backend",
      fmt::format("\"{}\" needs an engine that is not part of this version; it runs {} models only", model,
                  kLlamaProvider),
      "model");
}

void lift_quarantine(const fs::path& home, const Clock& clock, std::string_view id) {
  const ModelName name{std::string(kLlamaProvider), std::string(id)};
  engine::Quarantine quarantine(engine::quarantine_folder(home), clock);
  if (const auto lifted = quarantine.clear(name.qualified()); !lifted) {
    log_warn("a model that was installed anew stays quarantined",
             {{"model", name.qualified()}, {"reason", lifted.error().message}});
  }
}

// A watcher outlives neither the core nor, for long, its job; what it missed it reads by number.
class CoreInstalls::Events final : public InstallEvents {
 public:
  Events(std::shared_ptr<ServiceCore> core, CoreInstalls& installs, std::string job_id)
      : core_(std::move(core)),
        installs_(installs),
        job_id_(std::move(job_id)),
        wake_(std::make_shared<asio::steady_timer>(core_->parts_.loop)) {
    watcher_ = installs_.jobs_.watch(job_id_, [weak = std::weak_ptr(wake_)] {
      if (const auto timer = weak.lock()) timer->cancel();
    });
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() override { installs_.jobs_.forget(job_id_, watcher_); }

  asio::awaitable<std::vector<std::string>> next(Millis silence) override {
    auto news = take();
    if (news.empty() && !ended_ && !woken_) {
      wake_->expires_after(silence);
      boost::system::error_code ignored;
      co_await wake_->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      news = take();
    }
    co_return news;
  }
  bool ended() const override { return ended_; }
  void wake() override {
    woken_ = true;
    wake_->cancel();
  }

 private:
  std::vector<std::string> take() {
    std::vector<std::string> out;
    const auto view = installs_.jobs_.find(job_id_);
    if (!view) {  // forgotten while nobody read it
      ended_ = true;
      return out;
    }
    for (const auto& event : installs_.jobs_.events_after(job_id_, seen_)) {
      seen_ = event.number;
      ended_ = ended_ || event.is_terminal();
      out.push_back(to_json(models::event_json(event, job_id_, view->model_id)));
    }
    return out;
  }

  std::shared_ptr<ServiceCore> core_;
  CoreInstalls& installs_;
  std::string job_id_;
  std::shared_ptr<asio::steady_timer> wake_;
  std::uint64_t watcher_ = 0, seen_ = 0;
  bool ended_ = false, woken_ = false;
};

CoreInstalls::CoreInstalls(ServiceCore& core, std::shared_ptr<InstallParts> parts)
    : core_(core),
      parts_(std::move(parts)),
      jobs_(core.parts_.loop, parts_->downloads, core.parts_.clock, core.parts_.entropy,
            {.before_done = [this](Backend, const std::string&) { before_done(); },
             .installed =
                 [this](Backend, const std::string& id) {
                   if (!core_.stopping_) core_.spawn_background(after_install(id), [] {});
                 }}),
      arranged_(core.parts_.loop),
      looked_(core.parts_.loop),
      planned_(core.parts_.loop),
      hub_asked_(core.parts_.loop),
      adopted_(core.parts_.loop) {}

CoreInstalls::~CoreInstalls() = default;

void CoreInstalls::begin_stop() {
  stopped_->cancel();
  stop_looking_.request_stop();
  if (const auto asked = asked_.lock()) asked->cancel();
  for (const auto& ensuring : ensuring_) ensuring->cancel();
  jobs_.cancel_all();
}

// Whoever reacts to the end of an install must find the model.
void CoreInstalls::before_done() {
  if (core_.stopping_) return;
  core_.scan_soon();
  core_.fresh_from_ = core_.scans_wanted_;
}

asio::awaitable<void> CoreInstalls::after_install(std::string id) {
  log_info("a model is installed", {{"model", catalog::qualified_id(Backend::llama_cpp, id)}});
  co_await on_pool(core_.parts_.pool, [home = core_.options_.home, &clock = core_.parts_.clock, id] {
    lift_quarantine(home, clock, id);
    return true;
  });
  co_await core_.forget_model({std::string(kLlamaProvider), id});
}

std::optional<api::ApiResult<EnsuredModel>> CoreInstalls::join(Backend backend, const std::string& id,
                                                               const std::string& file) const {
  auto job = jobs_.join(backend, id, file);
  if (!job) return std::unexpected(install_error(job.error()));
  if (job->empty()) return std::nullopt;
  return EnsuredModel{catalog::qualified_id(backend, id), std::move(*job)};
}

api::ApiResult<EnsuredModel> CoreInstalls::start_job(models::InstallPlan plan, bool skip_sha) {
  const Backend backend = plan.backend;
  const std::string id = plan.id;
  const std::string file = models::source_key(plan);
  const auto started =
      jobs_.start(backend, id,
                  models::install_work(core_.store_, *parts_->transfers, core_.parts_.clock, std::move(plan),
                                       {.skip_sha = skip_sha, .token = parts_->token, .at_step = {}}),
                  file);
  if (!started) return std::unexpected(install_error(started.error()));
  if (!started->joined)
    log_info("an install begins", {{"model", catalog::qualified_id(backend, id)}, {"job", started->job_id}});
  return EnsuredModel{catalog::qualified_id(backend, id), started->job_id};
}

asio::awaitable<api::ApiResult<EnsuredModel>> CoreInstalls::ensure(EnsureRequest request) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (is_network_name(request.model)) {
    if (!request.allow_network_names) co_return std::unexpected(api::missing_scope("ui"));
    co_return co_await ensure_from_network(std::move(request));
  }
  if (!request.mirrors.empty() && !request.allow_network_names)
    co_return std::unexpected(api::missing_scope("ui"));
  const std::string model = std::move(request.model);
  if (!request.id.empty() || !request.sha256.empty()) {
    const std::string_view field = request.id.empty() ? "sha256" : "id";
    co_return std::unexpected(api::invalid_request(
        "invalid_request",
        fmt::format("{} is for models of the network (hf:... and addresses); \"{}\" has its own", field,
                    model.substr(0, 200)),
        std::string(field)));
  }
  if (const auto id = catalog::parse_qualified_id(model)) {
    if (auto joined = join(id->backend, id->id)) co_return std::move(*joined);
  }
  const ServiceCore::Busy busy(core);
  // A model of the machine that nobody read yet is hashed first.
  const auto& pool = core->inventory_.machine_unread ? core->parts_.slow_pool : core->parts_.pool;
  auto wanted = co_await on_pool(pool, [this, model, go_on = core->go_on_] {
    return look_up(model, *parts_, core_.store_, false, [&](Backend backend, std::string_view id) {
      return backend == Backend::llama_cpp &&
             core_.store_.find(id, [&](Bytes) { return go_on->load(); }).has_value();
    });
  });
  // A model of the machine may not have been read to its end, then the answer is about nothing.
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (!wanted) co_return std::unexpected(install_error(wanted.error()));
  if (wanted->id.backend != Backend::llama_cpp) co_return std::unexpected(unsupported_backend(model));
  if (!wanted->plan) co_return EnsuredModel{catalog::qualified_id(wanted->id.backend, wanted->id.id), ""};
  if (const auto added = models::add_mirrors(*wanted->plan, request.mirrors); !added)
    co_return std::unexpected(install_error(added.error()));
  co_return start_job(std::move(*wanted->plan), false);
}

asio::awaitable<api::ApiResult<EnsuredModel>> CoreInstalls::install(InstallRequest request) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (const auto safe = models::check_store_safe_id(request.id); !safe)
    co_return std::unexpected(install_error(safe.error()));
  const std::string model = catalog::qualified_id(Backend::llama_cpp, request.id);
  if (auto joined = join(Backend::llama_cpp, request.id)) co_return std::move(*joined);
  if (const auto* there = core->installed(request.id);
      there != nullptr && there->read_only && !request.own_copy)
    co_return std::unexpected(install_error(models::read_only_model(request.id)));
  const ServiceCore::Busy busy(core);
  auto wanted = co_await on_pool(core->parts_.pool, [this, model, projector = request.include_projector] {
    return look_up(model, *parts_, core_.store_, projector, [](Backend, std::string_view) { return false; });
  });
  if (!wanted) co_return std::unexpected(install_error(wanted.error()));
  if (!wanted->plan) co_return std::unexpected(unsupported_backend(model));
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  co_return start_job(std::move(*wanted->plan), request.skip_sha);
}

api::ApiResult<json::value> CoreInstalls::job(const std::string& job_id) {
  const auto view = jobs_.find(job_id);
  if (!view) return std::unexpected(no_such_job(job_id));
  json::array events;
  for (const auto& event : view->events)
    events.push_back(models::event_json(event, view->job_id, view->model_id));
  return json::object{{"job_id", view->job_id},
                      {"model_id", view->model_id},
                      {"status", models::to_string(view->status)},
                      {"started_at", view->started_at_ms},
                      {"events", std::move(events)}};
}

api::ApiResult<std::shared_ptr<InstallEvents>> CoreInstalls::watch(const std::string& job_id) {
  if (!jobs_.find(job_id)) return std::unexpected(no_such_job(job_id));
  return std::make_shared<Events>(core_.shared_from_this(), *this, job_id);
}

json::value CoreInstalls::cancel(const std::string& id) {
  return json::object{{"aborted", jobs_.cancel(Backend::llama_cpp, id)}};
}

json::value CoreInstalls::active() const {
  json::array installs;
  for (const auto& each : jobs_.active()) {
    installs.push_back(json::object{{"catalogId", each.id},
                                    {"jobId", each.job_id},
                                    {"bytesWritten", each.bytes_written},
                                    {"totalBytes", each.total_bytes},
                                    {"phase", models::to_string(each.phase)},
                                    {"startedAt", each.started_at_ms}});
  }
  return json::object{{"installs", std::move(installs)}};
}

asio::awaitable<json::value> CoreInstalls::installed() {
  const auto core = core_.shared_from_this();
  const ServiceCore::Busy busy(core);
  co_return co_await on_pool(core->parts_.pool, [this]() -> json::value {
    const models::Inventory inventory = core_.store_.inventory();
    json::array rows, unrecognized;
    for (const auto& model : inventory.installed) {
      rows.push_back(installed_row(
          model, models::check_update(core_.store_, model, *parts_->catalog, Backend::llama_cpp),
          license_of(model, *parts_->catalog)));
    }
    for (const auto& model : inventory.unrecognized) {
      json::object row{{"id", model.id},
                       {"bytes", model.bytes},
                       {"updatedAt", model.updated_at_ms},
                       {"reason", model.reason},
                       {"canUpdate", models::is_resumable(model.id, Backend::llama_cpp, *parts_->catalog)}};
      if (!model.name.empty()) row["name"] = model.name;
      unrecognized.push_back(std::move(row));
    }
    return json::object{{"models", std::move(rows)}, {"unrecognized", std::move(unrecognized)}};
  });
}

asio::awaitable<json::value> CoreInstalls::incomplete() {
  const auto core = core_.shared_from_this();
  const ServiceCore::Busy busy(core);
  co_return co_await on_pool(core->parts_.pool, [this]() -> json::value {
    json::array rows;
    for (const auto& model : core_.store_.inventory().incomplete) {
      json::object row{{"id", model.id},
                       {"bytes", model.bytes},
                       {"updatedAt", model.updated_at_ms},
                       {"hasPartial", model.has_partial},
                       {"resumable", models::is_resumable(model.id, Backend::llama_cpp, *parts_->catalog)}};
      if (const auto known = parts_->catalog->get(catalog::Kind::chat_model, model.id))
        row["name"] = known->item->name;
      rows.push_back(std::move(row));
    }
    return json::object{{"incomplete", std::move(rows)}};
  });
}

asio::awaitable<api::ApiResult<json::value>> CoreInstalls::remove(std::string id, bool force) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  const ModelName name{std::string(kLlamaProvider), id};
  models::RemoveRequest request{.id = id, .in_use_by = {}, .wait = {}, .supplied_by_machine = false};
  if (!jobs_.running(Backend::llama_cpp, id).empty()) {
    api::ApiError error = api::invalid_request(
        "install_in_progress",
        fmt::format("\"{}\" is being installed; cancel that first (DELETE /api/llama-cpp/models/{}/install)",
                    id, id),
        "model");
    error.status = 409;
    co_return std::unexpected(std::move(error));
  }
  const ServiceCore::Busy busy(core);
  if (removing_.contains(id)) {
    api::ApiError error = api::invalid_request(
        "model_in_use", fmt::format("\"{}\" is being deleted already; wait for that", id), "model");
    error.status = 409;
    co_return std::unexpected(std::move(error));
  }
  // From here on nobody gets it to load it.
  struct Mark {
    Mark(std::set<std::string>& all, std::string marked_id) : marked(all), id(std::move(marked_id)) {
      marked.insert(id);
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    ~Mark() { marked.erase(id); }
    std::set<std::string>& marked;
    std::string id;
  } const mark(removing_, id);
  if (const auto engine = core->engines_.find(name.qualified())) {
    const engine::Status status = engine->status();
    const bool holds = status.state != engine::State::stopped && status.state != engine::State::exhausted;
    if (holds || status.queued > 0) {
      if (!force) {
        request.in_use_by =
            fmt::format("its {} engine ({}{})", kLlamaProvider, engine::state_name(status.state),
                        status.pid > 0 ? fmt::format(", pid {}", status.pid) : "");
      } else if (const auto stopped = co_await core->engines_.stop(name.qualified(), true);
                 !stopped && stopped.error().error.code != "model_not_loaded") {
        co_return std::unexpected(api::from_engine(stopped.error()));
      }
    }
  }
  request.wait = [stopped = stopped_](Millis delay) { return stopped->wait(delay); };
  const auto removed =
      co_await on_pool(core->parts_.pool, [this, request] { return core_.store_.remove(request); });
  // With files that stay for now the model is gone all the same.
  if (!removed && removed.error().code != "model_locked")
    co_return std::unexpected(api::from_error(removed.error()));
  log_info("a model was deleted", {{"model", name.qualified()}});
  if (!core->stopping_) co_await core->refresh();
  co_await core->forget_model(name);
  if (!removed) co_return std::unexpected(api::from_error(removed.error()));
  co_return json::object{{"ok", true}};
}

}  // namespace gezel::service
