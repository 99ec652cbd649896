// service/installs.h
//
// Where models come from, for the routes of spec 60 sections 9, 12, 13 and 17: installs and who watches them,
// deletion, and what other programs have. On the event loop, like InferenceService.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <vector>

#include "api/error.h"
#include "base/clock.h"
#include "base/json.h"
#include "downloads/cancellation.h"

namespace gezel::service {

namespace asio = boost::asio;

// One watcher of an install. Letting go of it ends the watching and nothing else.
class InstallEvents {
 public:
  virtual ~InstallEvents() = default;
  // What happened since the last call (at first: since the install began), as JSON texts in order. Waits for
  // it at most `silence`; empty = nothing came, or woken. A slow caller misses progress, never a change of
  // state.
  virtual asio::awaitable<std::vector<std::string>> next(Millis silence) = 0;
  virtual bool ended() const = 0;  // the last event was returned
  virtual void wake() = 0;         // ends the wait of next()
};

struct EnsuredModel {
  std::string model_id;  // qualified
  std::string job_id;    // "" = it is installed
};

struct EnsureRequest {
  std::string model;
  // Whether "hf:..." and addresses may be named: whoever may, decides whom the service asks.
  bool allow_network_names = false;
  // Of such a model only. What to call it, "" = derived from its name; and the digest that the file of an
  // address must have, "" = whatever it has.
  std::string id = {}, sha256 = {};
  // Base addresses of hosts that have the same files, tried in order after the first (models/mirrors.h). Only
  // for who may name addresses.
  std::vector<std::string> mirrors = {};
  // Ends the questions before an install of such a model, not the install. Null: nobody gives up.
  std::shared_ptr<downloads::Cancellation> cancelled = {};
};

struct InstallRequest {
  std::string id;
  bool skip_sha = false, include_projector = false;
  bool own_copy = false;  // also of a model that this machine's store supplies
};

class Installs {
 public:
  virtual ~Installs() = default;

  // Section 9.1. Errors of sections 9.1 and 19, those of resolve_hub(), plan_url(), add_mirrors() and
  // look_at_url(), `too_many_installs`; of models of the network `timed_out` (504) where a host takes too
  // long.
  virtual asio::awaitable<api::ApiResult<EnsuredModel>> ensure(EnsureRequest request) = 0;
  // Also for an installed model, which is then brought up to date. Joins a running install. Its job id. Error
  // `read-only-model` where only the machine's store has it and no copy of one's own is asked for.
  virtual asio::awaitable<api::ApiResult<EnsuredModel>> install(InstallRequest request) = 0;
  virtual api::ApiResult<json::value> job(const std::string& job_id) = 0;  // error `job_not_found`
  virtual api::ApiResult<std::shared_ptr<InstallEvents>> watch(const std::string& job_id) = 0;
  virtual json::value cancel(const std::string& id) = 0;  // {aborted}
  virtual json::value active() const = 0;                 // {installs:[...]}

  virtual asio::awaitable<json::value> installed() = 0;   // {models:[...], unrecognized:[...]}
  virtual asio::awaitable<json::value> incomplete() = 0;  // {incomplete:[...]}
  // Section 13. Errors: invalid-model-id, model_not_installed, model_in_use, install_in_progress,
  // model_locked.
  virtual asio::awaitable<api::ApiResult<json::value>> remove(std::string id, bool force) = 0;
  // {models:[...]} of a source, "" = all.
  virtual asio::awaitable<json::value> discovered(std::string source) = 0;
};

}  // namespace gezel::service
