// service/core_installs.h
//
// ServiceCore's part of installing, finding and deleting models. Lives in the core and as long; everything
// but the closures given to a pool runs on the event loop, and those use the store, the catalog and what
// InstallParts brings, never other state.
#pragma once
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "engine/wakeup.h"
#include "models/default_model.h"
#include "models/install_jobs.h"
#include "service/inference_service.h"
#include "service/install_parts.h"
#include "service/installed_files.h"
#include "service/installs.h"
#include "service/model_name.h"
#include "service/remote_model.h"
#include "service/shelf.h"

namespace gezel::service {

class ServiceCore;

class CoreInstalls final : public Installs {
 public:
  CoreInstalls(ServiceCore& core, std::shared_ptr<InstallParts> parts);
  ~CoreInstalls() override;

  void start();       // background work
  void begin_stop();  // cancels every install; what arrived stays

  asio::awaitable<api::ApiResult<EnsuredModel>> ensure(EnsureRequest request) override;
  asio::awaitable<api::ApiResult<EnsuredModel>> install(InstallRequest request) override;
  api::ApiResult<json::value> job(const std::string& job_id) override;
  api::ApiResult<std::shared_ptr<InstallEvents>> watch(const std::string& job_id) override;
  json::value cancel(const std::string& id) override;
  json::value active() const override;
  asio::awaitable<json::value> installed() override;
  asio::awaitable<json::value> incomplete() override;
  asio::awaitable<api::ApiResult<json::value>> remove(std::string id, bool force) override;
  asio::awaitable<json::value> discovered(std::string source) override;

  // For the list of models: capabilities of installed ones, then discovered models, aliases, and what can be
  // downloaded. From what was last seen, looked at again in the background.
  asio::awaitable<json::array> with_offers(json::array installed);
  // What the catalog, as last seen, adds to the entry of an installed model. True: it knows the model.
  bool describe(const models::InstalledModel& model, json::object& entry) const;
  // The entry of a model that is not installed but could be; nothing when there is none.
  asio::awaitable<std::optional<json::object>> offer(std::string id);

  // "discovered:<source>/<id>": registered by reference the first time that somebody uses it.
  asio::awaitable<api::ApiResult<ModelName>> adopt(std::string text);
  // The same without registering anything: `model_not_loaded` where it was not used yet.
  asio::awaitable<api::ApiResult<ModelName>> known_as(std::string text);
  // What a plan needs to know of such a model, from its file; as known_as() where it was used before.
  asio::awaitable<api::ApiResult<RemoteModel>> discovered_model(std::string text);
  // The installed model that the catalog, as last seen, has the name as an alias of.
  std::optional<ModelName> by_alias(std::string_view text) const;
  // For a name that means nothing installed: the installed model it is an alias of, else `otherwise`, which
  // says how to get the model where the catalog has it.
  asio::awaitable<api::ApiResult<ModelName>> by_catalog(std::string text, api::ApiError otherwise);
  // What a plan needs to know of a model that is not installed: the header of its file is read over the
  // network, or found among those that were; where no host answers, the catalog's figures stand for it.
  // `otherwise` is the error for a name that means nothing.
  asio::awaitable<api::ApiResult<RemoteModel>> remote_model(PlanRequest request,
                                                            std::optional<api::ApiError> otherwise);
  bool is_removing(const std::string& id) const { return removing_.contains(id); }

  // For default models: what the catalog, as last seen, has for this machine, looked at now where it was not
  // yet, and an install that runs.
  asio::awaitable<void> know_shelf();
  const std::optional<Shelf>& shelf() const { return shelf_; }
  catalog::Backend preferred() const { return catalog::preferred_backend(parts_->host); }
  std::optional<models::InstallProgress> running() const;

 private:
  class Events;
  struct Found {
    models::DiscoveredModel row;
    fs::path real;  // where its first file really is
  };

  // The running install of a model; nothing when there is none.
  std::optional<api::ApiResult<EnsuredModel>> join(catalog::Backend backend, const std::string& id,
                                                   const std::string& file = {}) const;
  api::ApiResult<EnsuredModel> start_job(models::InstallPlan plan, bool skip_sha);
  asio::awaitable<api::ApiResult<EnsuredModel>> ensure_from_network(EnsureRequest request);
  // What such an install would do; the hub is asked about one model at a time, each for a bounded time.
  asio::awaitable<api::ApiResult<models::InstallPlan>> ask_hub(
      EnsureRequest request, std::shared_ptr<downloads::Cancellation> cancelled);
  // Whether the file of an address is a model, and its size, where the host says it. The plan outlives it.
  asio::awaitable<api::ApiResult<bool>> look_at(models::InstallPlan& plan,
                                                std::shared_ptr<downloads::Cancellation> cancelled);
  // Why a question to the network is not gone on with.
  std::optional<api::ApiError> given_up(const downloads::Cancellation& cancelled) const;
  // Fills in what the header of the plan's first file says, and the sizes that the plan lacks. Plan and `out`
  // outlive the call.
  asio::awaitable<Result<>> read_header(models::InstallPlan& plan,
                                        std::shared_ptr<downloads::Cancellation> cancelled, RemoteModel& out);
  void before_done();
  asio::awaitable<void> after_install(std::string id);

  asio::awaitable<void> arrange();
  void arrange_if_old();
  asio::awaitable<void> look_around();
  void look_around_if_old(Millis age);
  // By "discovered:<source>/<id>".
  const Found* find_discovered(std::string_view text) const;
  // Looks for it anew where it is not known.
  asio::awaitable<api::ApiResult<Found>> found_row(std::string text);
  json::object found_entry(const Found& found) const;
  // The installed models by their files, as last seen. Valid until the next wait.
  InstalledFiles installed_files() const;

  ServiceCore& core_;
  const std::shared_ptr<InstallParts> parts_;
  models::InstallJobs jobs_;
  // Ends waiting on the pool.
  const std::shared_ptr<downloads::Cancellation> stopped_ = std::make_shared<downloads::Cancellation>();
  std::stop_source stop_looking_;

  std::optional<Shelf> shelf_;
  MonotonicTime arranged_at_{};
  bool arranging_ = false;
  engine::Wakeup arranged_;

  std::vector<Found> found_;
  std::optional<MonotonicTime> looked_at_;
  bool looking_ = false;
  engine::Wakeup looked_;

  HeaderCache headers_;
  int plans_waiting_ = 0;
  bool planning_ = false;  // somebody asks the network for a plan
  engine::Wakeup planned_;
  std::weak_ptr<downloads::Cancellation> asked_;  // ends that
  // Each ends what the network is asked about a model that is to be installed.
  std::set<std::shared_ptr<downloads::Cancellation>> ensuring_;
  bool asking_hub_ = false;
  engine::Wakeup hub_asked_;

  std::set<std::string> removing_;
  bool adopting_ = false;
  engine::Wakeup adopted_;
};

// How an install, and a question about one, is refused.
api::ApiError install_error(const Error& error);
api::ApiError plan_error(const Error& error);  // of what was read before a download
api::ApiError unsupported_backend(std::string_view model);

// An install is a fresh start, even of the same file.
void lift_quarantine(const fs::path& home, const Clock& clock, std::string_view id);

}  // namespace gezel::service
