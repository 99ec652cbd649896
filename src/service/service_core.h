// service/service_core.h
//
// The state behind InferenceService. Shared, so that work that comes back from the pool finds it alive;
// everything but the closures given to on_pool() runs on the event loop. Those may use the store, never this
// object's other state.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/pool.h"
#include "engine/wakeup.h"
#include "models/default_model.h"
#include "replay/store.h"
#include "service/catalog_updates.h"
#include "service/core_bundles.h"
#include "service/core_installs.h"
#include "service/inference_service.h"
#include "service/model_entry.h"
#include "service/model_name.h"
#include "service/service_parts.h"

namespace gezel::service {

class ServiceCore : public std::enable_shared_from_this<ServiceCore> {
 public:
  ServiceCore(ServiceParts parts, ServiceOptions options);
  ~ServiceCore();

  // Begins background work; once, after construction.
  void start();

  asio::awaitable<api::ApiResult<std::unique_ptr<engine::Generation>>> chat(std::string model,
                                                                            std::string caller,
                                                                            prompt::GenerateRequest request);
  asio::awaitable<void> keep_calls(std::string caller, std::string model, api::ChatMessage message);
  asio::awaitable<json::value> list_models();
  asio::awaitable<api::ApiResult<json::value>> retrieve_model(std::string id);
  asio::awaitable<api::ApiResult<ModelName>> default_model();
  asio::awaitable<json::value> describe_default();
  asio::awaitable<api::ApiResult<json::value>> pin_default(std::string model);
  json::value health() const;
  json::value ps();
  json::value quarantine();
  api::ApiResult<json::value> clear_quarantine(const std::string& model);
  json::value memory(bool show_programs);
  asio::awaitable<api::ApiResult<json::value>> memory_plan(PlanRequest request);
  asio::awaitable<api::ApiResult<json::value>> stop_model(std::string model, bool force);
  asio::awaitable<api::ApiResult<json::value>> import_model(json::object request);
  asio::awaitable<api::ApiResult<json::value>> worker_stats(std::string model);
  asio::awaitable<api::ApiResult<json::value>> calibration(std::string model);
  asio::awaitable<json::value> calibrations();
  asio::awaitable<api::ApiResult<json::value>> calibrate(std::string model);
  asio::awaitable<api::ApiResult<CacheAnswer>> cache(api::CacheRequest request);
  asio::awaitable<json::value> cache_stats();
  asio::awaitable<api::ApiResult<void>> evict_session(std::string key);
  asio::awaitable<api::ApiResult<void>> clear_cache(std::string provider);
  asio::awaitable<api::ApiResult<json::value>> catalog(std::string path, std::string version);
  asio::awaitable<void> stop();
  bool stopping() const { return stopping_; }
  // No new work, and what runs on the pool ends soon.
  void begin_stop();
  Installs& installs() { return installs_; }
  Bundles& bundles() { return bundles_; }
  CatalogUpdates& catalog_updates() { return catalog_updates_; }

 private:
  friend class CatalogUpdates;
  friend class CoreBundles;
  friend class CoreInstalls;
  // Counts as background work, for which stop() waits, while it lives.
  class Busy {
   public:
    explicit Busy(std::shared_ptr<ServiceCore> core) : core_(std::move(core)) { ++core_->background_; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() {
      --core_->background_;
      core_->background_done_.notify();
    }

   private:
    std::shared_ptr<ServiceCore> core_;
  };
  // Runs beside requests; stop() waits for it. `failed` is called when an exception ended it: nobody may wait
  // for ever for what it would have done.
  void spawn_background(asio::awaitable<void> work, std::function<void()> failed);

  asio::awaitable<void> prepare();
  asio::awaitable<void> survey_gpus();
  asio::awaitable<void> scan_loop();
  asio::awaitable<void> verify_loop();
  void prepare_soon();
  void scan_soon();
  void scan_if_old();
  std::vector<int> own_processes() const;  // this one and its workers
  void verify_soon();
  void verify_machine_soon();  // only models of the machine that are new
  // Returns when a scan that began after the call is done.
  asio::awaitable<void> refresh();

  // Spec 60 section 15: at start, what is settled for the user.
  asio::awaitable<void> settle_pins();
  // Members of config.json whose value is wrong: somebody meant something else, so only one who asks for it
  // replaces them.
  enum class Wrong { keep, replace };
  asio::awaitable<Result<>> save_pins(Wrong wrong);
  std::vector<models::InstalledChoice> choices() const;  // models that a default may be
  Result<ModelName> pick_default() const;

  KnownModels known() const;
  const models::InstalledModel* installed(std::string_view id) const;
  const models::UnrecognizedModel* unrecognized(std::string_view id) const;
  // The error for a model of the store that cannot be used as it is.
  api::ApiError unusable(const ModelName& name) const;
  // The model a request means, installed and usable; looks at the disk again before it says no.
  asio::awaitable<api::ApiResult<ModelName>> installed_model(std::string text);
  // The same, also under an alias of the catalog or as "discovered:..."; the error says how to get it. Only a
  // use registers a model of another program; to a question it is `model_not_loaded` before its first one.
  enum class For { question, use };
  asio::awaitable<api::ApiResult<ModelName>> usable_model(std::string text, For what = For::question);
  // After its files changed: unloads it where nobody uses it, and forgets what was measured.
  asio::awaitable<void> forget_model(ModelName name);
  ModelFacts facts_of(const ModelName& name);
  // What was measured of its speed; nothing: nothing was.
  asio::awaitable<std::optional<json::object>> calibration_of(ModelName name);
  // The fingerprint of an installed model's files, or "".
  std::string fingerprint_of(std::string_view id) const;
  asio::awaitable<void> put_sampled(std::string caller, const ModelName& name,
                                    prompt::GenerateRequest& request);
  static asio::awaitable<engine::EngineResult<engine::CacheReply>> ask_cache(
      std::shared_ptr<engine::Engine> engine, engine::CacheQuery query, bool start);
  static asio::awaitable<void> warm_quietly(std::string model, std::shared_ptr<engine::Engine> engine,
                                            engine::CacheQuery query, bool start);
  // What the running engine was loaded with, else what it would be loaded with now: reads the model's header.
  // Nothing when that cannot be read.
  asio::awaitable<std::optional<json::object>> profile_of(ModelName name, models::InstalledModel model);
  api::ApiResult<json::value> plan_of(const RemoteModel& remote, const engine::MemoryWish& wish) const;
  // Remembers in planned_ what a load would get now; nothing is loaded for it. Of a model that is loaded and
  // would not be loaded anew, that is what it has. Planned anew only where something it depends on changed.
  asio::awaitable<void> plan_window(ModelName name);
  std::string plan_conditions(const ModelName& name, Bytes step) const;

  ServiceParts parts_;
  const ServiceOptions options_;
  const WallTime started_at_;
  models::Pins pins_;
  models::ModelStore store_;
  engine::EnginePool engines_;
  std::unique_ptr<replay::Store> replay_;  // null until it is open, and where it is not wanted

  models::Inventory inventory_;
  MonotonicTime scanned_at_{};
  std::uint64_t scans_wanted_ = 0, scans_done_ = 0;
  std::uint64_t fresh_from_ = 0;  // a list waits for this scan
  bool scanning_ = false;
  engine::Wakeup scanned_;

  bool verify_wanted_ = false, verify_machine_wanted_ = false, verifying_ = false;
  // What engines told about models, kept when they are unloaded.
  std::map<std::string, std::string, std::less<>> default_templates_;
  std::map<std::string, Performance, std::less<>> performance_;
  struct Planned {
    std::int64_t context = 0;  // 0: there is no room for it
    int slots = 0;
    bool below_floor = false;
    // Under which it was planned; "" was not.
    std::string conditions;
    Bytes free = 0;
  };
  std::map<std::string, Planned, std::less<>> planned_;  // by qualified id, as last asked for

  std::optional<engine::GpuSurvey> gpus_;  // once it is known

  bool prepared_ = false;
  engine::Wakeup prepared_changed_;
  bool stopping_ = false, stopped_ = false, stop_begun_ = false;
  engine::Wakeup stopped_changed_;
  std::shared_ptr<std::atomic<bool>> go_on_ = std::make_shared<std::atomic<bool>>(true);
  int background_ = 0;
  int copying_ = 0;  // imports that copy, or wait for a thread for it
  engine::Wakeup background_done_;
  CoreInstalls installs_;
  CoreBundles bundles_;
  CatalogUpdates catalog_updates_;
};

}  // namespace gezel::service
