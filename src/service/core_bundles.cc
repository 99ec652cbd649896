#include "service/core_bundles.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "downloads/partial_file.h"
#include "engine/on_pool.h"
#include "models/bundle_export.h"
#include "models/disk.h"
#include "models/preflight.h"
#include "service/service_core.h"

namespace gezel::service {

using engine::on_pool;

namespace {

constexpr std::size_t kWriteBytes = kMiB;
constexpr int kBusyRetrySeconds = 30;

// Whoever handles bundles is a local person, who may see paths.
api::ApiError bundle_error(const Error& error) {
  api::ApiError out = api::from_error(error);
  if (error.code == "insufficient_disk") {
    out.status = 507;
    out.message = error.message;
  }
  return out;
}

// An import is watched by its own progress route only; this watches nothing.
class NoObserver final : public models::InstallObserver {
 public:
  void progress(const models::InstallProgressReport&) override {}
  void retrying(const std::string&, const downloads::Retry&) override {}
  void verifying(const std::string&) override {}
  void extracting_metadata() override {}
};

std::string_view phase_name(int phase) {
  switch (phase) {
    case static_cast<int>(models::ScanPhase::inspecting):
      return "inspecting";
    case static_cast<int>(models::ScanPhase::verifying):
      return "verifying";
    case static_cast<int>(models::ScanPhase::validating):
      return "validating";
    default:
      return "receiving";
  }
}

}  // namespace

// A place among those who read and hash at the same time.
class CoreBundles::Turn {
 public:
  static std::optional<Turn> take(const std::shared_ptr<int>& working) {
    if (*working >= kMostBundles) return std::nullopt;
    return Turn(working);
  }
  Turn(Turn&& other) noexcept = default;
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (working_) --*working_;
  }
  static api::ApiError refused() {
    api::ApiError out;
    out.status = 503;
    out.code = "too_many_bundles";
    out.message = fmt::format(
        "{} bundles are being read or made already, the most at a time; try again later", kMostBundles);
    out.retry_after_s = kBusyRetrySeconds;
    return out;
  }

 private:
  explicit Turn(std::shared_ptr<int> working) : working_(std::move(working)) { ++*working_; }
  std::shared_ptr<int> working_;
};

class CoreBundles::Download final : public BundleDownload {
 public:
  Download(std::shared_ptr<ServiceCore> core, std::shared_ptr<models::BundleExport> archive)
      : core_(std::move(core)), archive_(std::move(archive)) {}
  std::string file_name() const override { return archive_->file_name(); }
  Bytes total_bytes() const override { return archive_->total_bytes(); }
  asio::awaitable<api::ApiResult<std::string>> next() override {
    if (core_->stopping_) co_return std::unexpected(api::shutting_down());
    auto piece = co_await on_pool(core_->parts_.pool, [archive = archive_] { return archive->next(); });
    if (!piece) co_return std::unexpected(bundle_error(piece.error()));
    co_return std::move(*piece);
  }

 private:
  std::shared_ptr<ServiceCore> core_;
  std::shared_ptr<models::BundleExport> archive_;
};

CoreBundles::CoreBundles(ServiceCore& core)
    : core_(core), imports_(core.options_.home, core.parts_.clock, core.parts_.entropy) {}

void CoreBundles::start() {
  core_.spawn_background(
      [](CoreBundles& self) -> asio::awaitable<void> {
        co_await on_pool(self.core_.parts_.pool, [&self] {
          self.imports_.remove_stale({});
          return true;
        });
      }(*this),
      [] {});
}

void CoreBundles::begin_stop() {
  for (auto& [id, job] : jobs_) job->cancellation.cancel();
}

asio::awaitable<api::ApiResult<std::shared_ptr<BundleDownload>>> CoreBundles::export_model(std::string engine,
                                                                                           std::string id) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (engine != kLlamaProvider) {
    co_return std::unexpected(
        api::invalid_request("unsupported_backend",
                             fmt::format("\"{}\" has no models here; this version exports {} models",
                                         engine.substr(0, 64), kLlamaProvider),
                             "engine"));
  }
  auto turn = Turn::take(working_);
  if (!turn) co_return std::unexpected(Turn::refused());
  const ServiceCore::Busy busy(core);
  auto made =
      co_await on_pool(core->parts_.slow_pool, [core, id]() -> Result<std::shared_ptr<models::BundleExport>> {
        const auto go_on = [&](Bytes) { return core->go_on_->load(); };
        GEZEL_TRY(auto model, core->store_.find(id, go_on));
        const auto request = models::export_request(
            std::move(model), *core->parts_.installs->catalog, core->parts_.clock.wall_now(),
            fmt::format("gezel-inference/{}", core->options_.version));
        GEZEL_TRY(auto archive, models::BundleExport::prepare(request, go_on));
        return std::make_shared<models::BundleExport>(std::move(archive));
      });
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (!made) co_return std::unexpected(bundle_error(made.error()));
  co_return std::make_shared<Download>(core, std::move(*made));
}

asio::awaitable<api::ApiResult<BundleScanned>> CoreBundles::scan(BundleScan request) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  purge();
  const std::string id = request.import_id.empty() ? new_uuid(core->parts_.entropy) : request.import_id;
  auto turn = Turn::take(working_);
  if (!turn) co_return std::unexpected(Turn::refused());
  if (const auto known = jobs_.find(id); known != jobs_.end() && known->second->running) {
    api::ApiError error =
        api::invalid_request("import_exists", "an import with this id is under way", "importId");
    error.status = 409;
    co_return std::unexpected(std::move(error));
  }
  const ServiceCore::Busy busy_core(core);
  const auto job = std::make_shared<Job>();
  const auto before = std::exchange(jobs_[id], job);
  auto archive = co_await on_pool(core->parts_.pool, [this, id, others = busy()] {
    imports_.remove_stale(others);
    return imports_.begin(id);
  });
  if (!archive) {
    put_back(id, before);
    co_return std::unexpected(bundle_error(archive.error()));
  }
  if (request.path.empty()) {
    const bool async = request.respond_async;
    auto received = co_await receive(std::move(request), *archive, job);
    if (!received) {
      co_await on_pool(core->parts_.pool, [this, id] { return imports_.discard(id).has_value(); });
      finish(*job, std::unexpected(received.error()));
      co_return std::unexpected(std::move(received).error());
    }
    request.respond_async = async;
    request.path.clear();
  }
  if (request.respond_async) {
    core->spawn_background(
        [](CoreBundles& self, std::string import_id, std::filesystem::path path, std::shared_ptr<Job> looked,
           Turn held) -> asio::awaitable<void> {
          const Turn kept(std::move(held));
          co_await self.look(std::move(import_id), std::move(path), std::move(looked));
        }(*this, id, request.path, job, std::move(*turn)),
        [] {});
    co_return BundleScanned{false, json::object{{"importId", id}}};
  }
  co_await look(id, request.path, job);
  if (!*job->result) co_return std::unexpected(job->result->error());
  co_return BundleScanned{true, **job->result};
}

// Written in large pieces; a broken upload leaves nothing. What was announced is held as a whole, so that
// installs and copies leave room for it; of what was not, each piece has to fit beside what they still write.
asio::awaitable<api::ApiResult<bool>> CoreBundles::receive(BundleScan request, std::filesystem::path archive,
                                                           std::shared_ptr<Job> job) {
  const auto core = core_.shared_from_this();
  job->total = request.upload_bytes.value_or(0);
  const auto hold = std::make_shared<std::optional<models::DiskHold>>();
  const auto take_room = [core, archive, hold](Bytes bytes) {
    hold->reset();
    hold->emplace(core->store_.disk_holds(), bytes);
    return models::check_disk("the bundle", bytes, (*hold)->others(), core->store_.free_bytes_at(archive));
  };
  auto opened = co_await on_pool(
      core->parts_.pool,
      [archive, take_room,
       bytes = request.upload_bytes.value_or(0)]() -> Result<std::shared_ptr<downloads::PartialFile>> {
        GEZEL_CHECK(take_room(bytes));
        GEZEL_TRY(auto file, downloads::PartialFile::open(archive));
        return std::make_shared<downloads::PartialFile>(std::move(file));
      });
  if (!opened) co_return std::unexpected(bundle_error(opened.error()));
  const std::shared_ptr<downloads::PartialFile> file = std::move(*opened);
  std::string pending;
  for (bool last = false; !last;) {
    auto piece = co_await request.upload->next();
    if (!piece) co_return std::unexpected(bundle_error(piece.error()));
    if (core->stopping_) co_return std::unexpected(api::shutting_down());
    if (job->cancellation.cancelled())
      co_return std::unexpected(
          bundle_error({ErrorKind::cancelled, "cancelled", "the import was cancelled", {}}));
    last = piece->empty();
    pending += *piece;
    job->done += piece->size();
    if (job->done > models::zip::kMaxArchiveBytes)
      co_return std::unexpected(api::request_too_large(models::zip::kMaxArchiveBytes));
    if (pending.size() < kWriteBytes && !last) continue;
    const auto written = co_await on_pool(
        core->parts_.pool,
        [file, hold, take_room, total = request.upload_bytes, text = std::move(pending), last]() -> Result<> {
          if (!total) GEZEL_CHECK(take_room(text.size()));
          GEZEL_CHECK(file->append(text));
          (*hold)->set(total ? *total - std::min(*total, file->size()) : 0);
          return last ? file->sync() : Result<>();
        });
    pending.clear();
    if (!written) co_return std::unexpected(bundle_error(written.error()));
  }
  if (request.upload_bytes && job->done != *request.upload_bytes) {
    co_return std::unexpected(api::invalid_request(
        "upload_incomplete", fmt::format("{} bytes were announced, and {} came; send the whole archive again",
                                         *request.upload_bytes, job->done.load())));
  }
  co_return true;
}

asio::awaitable<void> CoreBundles::look(std::string import_id, std::filesystem::path path,
                                        std::shared_ptr<Job> job) {
  const auto core = core_.shared_from_this();
  const ServiceCore::Busy busy(core);
  auto review = co_await on_pool(core->parts_.slow_pool, [this, core, import_id, path, job] {
    return imports_.scan(import_id, path, core->store_,
                         [&](models::ScanPhase phase, Bytes done, Bytes total) {
                           job->phase = static_cast<int>(phase);
                           job->done = done;
                           job->total = total;
                           return core->go_on_->load() && !job->cancellation.cancelled();
                         });
  });
  finish(*job, review ? api::ApiResult<json::value>(models::review_json(*review))
               : core->stopping_
                   ? api::ApiResult<json::value>(std::unexpected(api::shutting_down()))
                   : api::ApiResult<json::value>(std::unexpected(bundle_error(review.error()))));
}

api::ApiResult<json::value> CoreBundles::progress(const std::string& import_id) {
  purge();
  const auto found = jobs_.find(import_id);
  if (found == jobs_.end()) {
    return std::unexpected(
        api::not_found("import_not_found",
                       fmt::format("no import \"{}\" is or was under way in the last {} min",
                                   import_id.substr(0, 64), kKeepBundleResult.count() / 60'000),
                       "importId"));
  }
  const Job& job = *found->second;
  json::object out{{"importId", import_id},
                   {"status", job.running   ? "running"
                              : *job.result ? "done"
                                            : "error"},
                   {"phase", phase_name(job.phase)},
                   {"bytes", job.done.load()},
                   {"totalBytes", job.total.load()}};
  if (job.running) return out;
  if (*job.result)
    out["review"] = **job.result;
  else
    out["error"] = json::object{{"code", job.result->error().code}, {"message", job.result->error().message}};
  return out;
}

asio::awaitable<api::ApiResult<json::value>> CoreBundles::confirm(std::string import_id, bool replace) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  auto turn = Turn::take(working_);
  if (!turn) co_return std::unexpected(Turn::refused());
  const auto known = jobs_.find(import_id);
  if (known != jobs_.end() && known->second->running) {
    api::ApiError error =
        api::invalid_request("import_running", "this import is worked on; wait for its end", "importId");
    error.status = 409;
    co_return std::unexpected(std::move(error));
  }
  const ServiceCore::Busy busy_core(core);
  const auto job = std::make_shared<Job>();
  const auto before = std::exchange(jobs_[import_id], job);  // nobody else works on it meanwhile
  auto model = co_await on_pool(core->parts_.slow_pool, [this, core, import_id, replace, job] {
    NoObserver observer;
    auto imported = imports_.confirm(import_id, replace, core->store_, observer, job->cancellation);
    if (imported) lift_quarantine(core->options_.home, core->parts_.clock, imported->id);
    return imported;
  });
  job->running = false;
  if (!model) {
    put_back(import_id, before);
    if (core->stopping_) co_return std::unexpected(api::shutting_down());
    co_return std::unexpected(bundle_error(model.error()));
  }
  jobs_.erase(import_id);
  log_info("a model was imported from a bundle", {{"model", model->id}});
  co_await core->refresh();
  co_await core->forget_model({std::string(kLlamaProvider), model->id});
  co_return json::object{{"model", import_entry(*model)}};
}

asio::awaitable<api::ApiResult<json::value>> CoreBundles::discard(std::string import_id) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (const auto known = jobs_.find(import_id); known != jobs_.end() && known->second->running) {
    // Whoever works on it notices, and cleans up.
    known->second->cancellation.cancel();
    co_return json::object{{"ok", true}};
  }
  const ServiceCore::Busy busy_core(core);
  const auto gone =
      co_await on_pool(core->parts_.pool, [this, core, import_id] { return imports_.discard(import_id); });
  jobs_.erase(import_id);
  if (!gone) co_return std::unexpected(bundle_error(gone.error()));
  co_return json::object{{"ok", true}};
}

std::vector<std::string> CoreBundles::busy() const {
  std::vector<std::string> out;
  for (const auto& [id, job] : jobs_) {
    if (job->running) out.push_back(id);
  }
  return out;
}

void CoreBundles::put_back(const std::string& id, std::shared_ptr<Job> before) {
  if (before) {
    jobs_[id] = std::move(before);
  } else {
    jobs_.erase(id);
  }
}

void CoreBundles::finish(Job& job, api::ApiResult<json::value> result) {
  job.running = false;
  job.result = std::move(result);
  job.ended_at = core_.parts_.clock.now();
}

void CoreBundles::purge() {
  const auto now = core_.parts_.clock.now();
  std::erase_if(jobs_, [&](const auto& entry) {
    return !entry.second->running && now - entry.second->ended_at > kKeepBundleResult;
  });
  while (jobs_.size() > kMostBundleResults) {
    const auto ended = std::ranges::find_if(jobs_, [](const auto& entry) { return !entry.second->running; });
    if (ended == jobs_.end()) return;
    jobs_.erase(ended);
  }
}

}  // namespace gezel::service
