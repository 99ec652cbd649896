// service/inference_service.h
//
// The composition root of the daemon's domain: which models there are, which engine serves each, and the
// operations behind the routes. Lives on one event loop; every method is called there. Knows api types, never
// HTTP.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/cache_json.h"
#include "api/chat.h"
#include "api/error.h"
#include "base/clock.h"
#include "base/json.h"
#include "downloads/cancellation.h"
#include "engine/engine.h"
#include "prompt/behaviors.h"
#include "service/bundles.h"
#include "service/caches.h"
#include "service/config.h"
#include "service/gpu_parts.h"
#include "service/install_settings.h"
#include "service/installs.h"

namespace gezel::service {

namespace asio = boost::asio;

// For tests of good-neighbour mode: other times, and a folder that stands for "/" where the use of the
// processors is read.
struct NeighbourTrial {
  Millis look{2'000}, yield{10'000}, back{60'000};
  std::filesystem::path root = "/";
};
// "look,yield,back[,root]" in milliseconds, as in GEZEL_NEIGHBOUR_TRIAL; nothing when it is not that.
std::optional<NeighbourTrial> parse_neighbour_trial(std::string_view text);

struct ServiceOptions {
  std::filesystem::path home;            // GEZEL_HOME
  std::filesystem::path engine_program;  // absolute path of gezel-engine
  std::string version;
  std::optional<int> slots;                 // --slots
  std::optional<std::int64_t> context;      // --ctx, tokens per slot
  std::optional<bool> flash_attention;      // --flash-attn
  std::optional<capacity::KvType> kv_type;  // --kv-type
  std::optional<int> threads;               // --threads
  // --target-itl: milliseconds a token of a running answer may take while prompts are read; unset: the
  // engine's default.
  std::optional<int> target_itl_ms;
  Millis idle_timeout{300'000};
  // GEZEL_AMBIENT_QUIET_MS: ambient work waits for a free place or for so long without other work; 0: never.
  std::optional<Millis> ambient_quiet;
  std::optional<Bytes> memory_budget;  // GEZEL_CAPACITY_BUDGET_GB: what all models together may take
  // --good-neighbour: models step back while other programs want the processors.
  bool good_neighbour = true;
  NeighbourTrial neighbour_trial;
  GpuSettings gpu;
  bool sandbox = true;
  bool calibration = true;  // --no-calibration, GEZEL_CALIBRATION=off
  bool speculation = true;  // --no-speculation, GEZEL_SPECULATION=off
  // --draft-model, GEZEL_DRAFT_MODEL; create() for a daemon adds what config.json says.
  engine_llama::DraftSettings draft;
  // Flags and the environment; create() for a daemon adds what config.json says.
  engine_llama::PromptCacheSettings prompt_cache;
  bool replay_store = true;            // --no-replay-store: forget what models wrote for their calls
  prompt::BehaviorSwitches behaviors;  // GEZEL_FORCE_BEHAVIORS, GEZEL_REMOVE_BEHAVIORS
  std::vector<std::string> excluded_buffer_types;  // failed the engine's self-test on this machine
  // Of config.json. create() for a daemon reads them itself.
  models::Pins pins;
  bool first_run_completed = false;
  CatalogUpdateSettings catalog_updates;
  ReplicaSettings replicas;
  InstallSettings installs;
};

struct PlanRequest {
  std::string model;
  engine::MemoryWish wish;
  // Whether "hf:..." and addresses may be named: whoever may, decides whom the service asks.
  bool allow_network_names = false;
  std::shared_ptr<downloads::Cancellation> cancelled;  // null: nobody gives up
};

struct ServiceParts;

class InferenceService {
 public:
  // The service of a daemon, with threads of its own for blocking work. The home's instance lock is held by
  // the caller. On return the store is known; engines that outlived an earlier daemon are ended before the
  // first model is loaded.
  static Result<std::unique_ptr<InferenceService>> create(asio::any_io_executor loop, ServiceOptions options);
  // The same around parts that the caller brings (service/service_parts.h).
  static std::unique_ptr<InferenceService> create(ServiceParts parts, ServiceOptions options);
  // Await stop() before; what then still runs on other threads is waited for.
  virtual ~InferenceService() = default;

  // Starts one forward turn. Model resolution, installation and request checks fail here, before any engine
  // work.
  virtual asio::awaitable<api::ApiResult<std::unique_ptr<engine::Generation>>> chat(
      const api::ChatRequest& request) = 0;

  // Remembers what the model wrote for the calls of an answer that `caller` is about to get, so that they can
  // stand in later prompts byte for byte (replay/store.h). Never fails: without it there is less to reuse.
  virtual asio::awaitable<void> keep_calls(std::string caller, std::string model,
                                           api::ChatMessage message) = 0;

  // Bodies of GET /v1/models and GET /v1/models/{id} (spec 10 section 8), from what was last seen on disk: a
  // second old at most, looked at again in the background. Before a model is left out or refused the disk is
  // looked at anew.
  virtual asio::awaitable<json::value> list_models() = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> retrieve_model(std::string id) = 0;
  // The qualified id of the model for requests that name none, or "default" (spec 60 section 15). Error
  // `model_not_found` (404) where nothing is installed, with how far an install is.
  virtual asio::awaitable<api::ApiResult<std::string>> default_model() = 0;
  // Bodies of GET and POST /api/default-model: {provider, pinned, model}; `pinned` and `model` (what would
  // answer now) may be null. Pinning a model that is not installed is `model_not_found`.
  virtual asio::awaitable<json::value> describe_default() = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> pin_default(std::string model) = 0;
  virtual json::value health() const = 0;  // spec 10 section 12; never blocks on engines

  // Behind /api/*, scope ui. Models are named as in requests. Beyond the errors of model names:
  // `model_not_loaded` (404), `model_busy` (409, unless forced), and those of ModelStore::import.
  virtual json::value ps() = 0;  // {models:[...]}
  virtual asio::awaitable<api::ApiResult<json::value>> stop_model(std::string model, bool force) = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> import_model(
      json::object request) = 0;  // spec 60 section 17.1
  // What is not started any more ({quarantined:[{model, backend, reason, at}]}), and lifting it ({cleared})
  // for one model or, with "", for everything. Errors: `not_quarantined` (404).
  virtual json::value quarantine() = 0;
  virtual api::ApiResult<json::value> clear_quarantine(std::string model) = 0;
  // Bodies of GET /v1/memory, and of GET /v1/memory/plan: for an installed model, one of the catalog,
  // "hf:..." or the address of a file, of which then the header is read and nothing downloaded. Unset wishes
  // are the service's own choice. Errors beyond those of model names: `missing_scope:ui`, `too_many_plans`,
  // those of read_remote_header().
  // `show_programs`: also who holds memory of a GPU (pid, program), which is for people of this machine only.
  virtual json::value memory(bool show_programs) = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> memory_plan(PlanRequest request) = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> worker_stats(
      std::string model) = 0;  // raw worker statistics
  // Bodies of GET and POST /api/tune (spec 35 section 3): what was measured of a model's speed, of all models
  // for "", and measuring one anew and at once. Error `calibration_off` (409).
  virtual asio::awaitable<api::ApiResult<json::value>> calibration(std::string model) = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> calibrate(std::string model) = 0;
  // What a model keeps of prompts (spec 40 section 11.15a). Only `warm` with `start` loads it. Errors beyond
  // those of model names: `model_not_loaded` (404), and what the engine says.
  virtual asio::awaitable<api::ApiResult<CacheAnswer>> cache(api::CacheRequest request) = 0;
  // Of all loaded models, spec 40 section 2.8: body of GET /api/cache/stats; forgets a session (by its key);
  // forgets everything of an engine family or of one engine ("llama-cpp:<id>", also with ":0" behind it).
  // What is not there is forgotten already; a session also on the disk, of models that are not loaded. An
  // error: something of it may still be kept.
  virtual asio::awaitable<json::value> cache_stats() = 0;
  virtual asio::awaitable<api::ApiResult<void>> evict_session(std::string key) = 0;
  virtual asio::awaitable<api::ApiResult<void>> clear_cache(std::string provider) = 0;

  // Bodies of GET /api/catalog/<kind>, <kind>/<id> (latest or `version`) and <kind>/<id>/versions (spec 60
  // section 3), by `path`, what stands behind /api/catalog/. Errors: `unknown_kind`, `unknown_model`,
  // `unknown_version` (404), `catalog_unreadable`.
  virtual asio::awaitable<api::ApiResult<json::value>> catalog(std::string path, std::string version) = 0;

  // Of GET /api/catalog-updates, POST /api/catalog-updates/check and POST /api/catalog-updates (spec 60
  // section 3.1; service/catalog_updates.h).
  virtual asio::awaitable<json::value> catalog_updates() = 0;
  virtual asio::awaitable<json::value> check_catalog() = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> set_catalog_updates(
      std::optional<bool> enabled, std::optional<std::string> url) = 0;

  virtual Installs& installs() = 0;  // lives as long as the service
  virtual Bundles& bundles() = 0;    // the same

  // Ends background work and every engine, running requests get their error. Idempotent.
  virtual asio::awaitable<void> stop() = 0;
  virtual bool stopping() const = 0;
};

}  // namespace gezel::service
