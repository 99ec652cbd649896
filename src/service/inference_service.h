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

#include "api/chat.h"
#include "api/error.h"
#include "base/clock.h"
#include "base/json.h"
#include "engine/engine.h"
#include "prompt/behaviors.h"
#include "service/install_settings.h"
#include "service/installs.h"

namespace gezel::service {

namespace asio = boost::asio;

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
  bool sandbox = true;
  bool replay_store = true;            // --no-replay-store: forget what models wrote for their calls
  prompt::BehaviorSwitches behaviors;  // GEZEL_FORCE_BEHAVIORS, GEZEL_REMOVE_BEHAVIORS
  std::vector<std::string> excluded_buffer_types;     // failed the engine's self-test on this machine
  std::map<std::string, std::string> default_models;  // pinned: provider -> model
  InstallSettings installs;
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
  // Bodies of GET /v1/memory, and of GET /v1/memory/plan for an installed model; unset wishes are the
  // service's own choice.
  virtual json::value memory() = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> memory_plan(std::string model,
                                                                   engine::MemoryWish wish) = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> worker_stats(
      std::string model) = 0;  // raw worker statistics

  virtual Installs& installs() = 0;  // lives as long as the service

  // Ends background work and every engine, running requests get their error. Idempotent.
  virtual asio::awaitable<void> stop() = 0;
  virtual bool stopping() const = 0;
};

}  // namespace gezel::service
