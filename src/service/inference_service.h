// service/inference_service.h
//
// The composition root of the daemon's domain: which models there are, which engine serves each, and the operations behind
// the routes. Lives on one event loop; every method is called there. Knows api types, never HTTP.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/chat.h"
#include "api/error.h"
#include "base/clock.h"
#include "base/json.h"
#include "engine/engine.h"

namespace gezel::service {

namespace asio = boost::asio;

struct ServiceOptions {
  std::filesystem::path home;            // GEZEL_HOME
  std::filesystem::path engine_program;  // absolute path of gezel-engine
  std::string version;
  std::optional<int> slots;              // --slots
  std::optional<std::int64_t> context;   // --ctx, tokens per slot
  std::optional<bool> flash_attention;   // --flash-attn
  std::optional<int> threads;            // --threads
  Millis idle_timeout{300'000};
  bool sandbox = true;
};

class InferenceService {
 public:
  static Result<std::unique_ptr<InferenceService>> create(asio::any_io_executor loop, ServiceOptions options);
  virtual ~InferenceService() = default;

  // Starts one forward turn. Model resolution, installation and request checks fail here, before any engine work.
  virtual asio::awaitable<api::ApiResult<std::unique_ptr<engine::Generation>>> chat(const api::ChatRequest& request) = 0;

  // Bodies of GET /v1/models and GET /v1/models/{id} (spec 10 section 8).
  virtual json::value list_models() = 0;
  virtual api::ApiResult<json::value> retrieve_model(std::string_view id) = 0;
  virtual json::value health() const = 0;  // spec 10 section 12; never blocks on engines

  // Behind /api/*, scope ui.
  virtual json::value ps() = 0;                                                             // {models:[...]}
  virtual asio::awaitable<api::ApiResult<json::value>> stop_model(std::string model, bool force) = 0;
  virtual asio::awaitable<api::ApiResult<json::value>> import_model(json::object request) = 0;  // spec 60 section 17.1
  virtual asio::awaitable<api::ApiResult<json::value>> worker_stats(std::string model) = 0;     // raw worker statistics

  // Ends background work and every engine, running requests get their error. Idempotent.
  virtual asio::awaitable<void> stop() = 0;
  virtual bool stopping() const = 0;
};

}  // namespace gezel::service
