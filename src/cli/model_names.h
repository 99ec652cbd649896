// cli/model_names.h
//
// A model argument into the id the API wants, and a helpful answer when there is no such model.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/daemon_client.h"
#include "cli/environment.h"

namespace gezel::cli {

inline constexpr std::string_view kLocalProvider = "llama-cpp";

// "llama-cpp:x" -> "x"; other ids stay whole, because their provider is part of what to type.
std::string short_name(std::string_view qualified_id);

// `argument` is a qualified id, or the part after "llama-cpp:". `known`: qualified ids. Error
// `model_not_found` with what was probably meant.
Result<std::string> resolve_model(std::string_view argument, const std::vector<std::string>& known);

// Qualified ids in the model store, read without a daemon.
std::vector<std::string> stored_models(const Environment& env);
// Qualified ids the daemon offers (GET /v1/models), without those that still would have to be downloaded.
Result<std::vector<std::string>> offered_models(const DaemonClient& client);

// The daemon and the model a command names; "" and "default" name the default one. A model that is not there
// is reported before a daemon is started for it.
struct ModelAtDaemon {
  DaemonClient client;
  std::string model;
};
Result<ModelAtDaemon> open_model(const Environment& env, std::string_view argument);

}  // namespace gezel::cli
