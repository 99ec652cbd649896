#include "cli/model_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/exit_codes.h"
#include "cli/near_misses.h"
#include "models/store.h"
#include "service/model_name.h"

namespace gezel::cli {
namespace {

std::string qualified(std::string_view argument) {
  if (argument.find_first_of(":/") != std::string_view::npos) return std::string(argument);
  return fmt::format("{}:{}", kLocalProvider, argument);
}

}  // namespace

std::string short_name(std::string_view qualified_id) {
  const std::string prefix = fmt::format("{}:", kLocalProvider);
  if (qualified_id.starts_with(prefix)) qualified_id.remove_prefix(prefix.size());
  return std::string(qualified_id);
}

Result<std::string> resolve_model(std::string_view argument, const std::vector<std::string>& known) {
  for (const std::string& candidate :
       {std::string(argument), fmt::format("{}:{}", kLocalProvider, argument)}) {
    if (std::find(known.begin(), known.end(), candidate) != known.end()) return candidate;
  }
  std::vector<std::string> names;
  for (const std::string& id : known) names.push_back(short_name(id));
  const std::string missing = fmt::format("There is no model '{}'.", argument);
  if (names.empty()) {
    return fail(ErrorKind::not_found, "model_not_found", missing + " No model is installed yet.", "model");
  }
  return fail(ErrorKind::not_found, "model_not_found",
              missing + did_you_mean(near_misses(names, short_name(argument), 3)), "model");
}

std::vector<std::string> stored_models(const Environment& env) {
  const models::ModelStore store(env.home, *env.clock, *env.entropy, kLocalProvider, env.installs.machine);
  std::vector<std::string> ids;
  for (const auto& model : store.inventory().installed)
    ids.push_back(fmt::format("{}:{}", kLocalProvider, model.id));
  return ids;
}

Result<std::vector<std::string>> offered_models(const DaemonClient& client) {
  GEZEL_TRY(const json::value list, client.get("/v1/models"));
  std::vector<std::string> ids;
  const json::array* data = list.is_object() ? array_at(list.get_object(), "data") : nullptr;
  if (data == nullptr) {
    return fail(ErrorKind::corrupt, std::string(kCodeBadReply), "The daemon's list of models has no 'data'");
  }
  for (const json::value& entry : *data) {
    if (!entry.is_object() || string_or(entry.get_object(), "availability") == "downloadable") continue;
    ids.push_back(string_or(entry.get_object(), "id"));
  }
  return ids;
}

Result<ModelAtDaemon> open_model(const Environment& env, std::string_view argument) {
  if (argument.empty() || argument == service::kDefaultModelName) {
    GEZEL_TRY(DaemonClient client, DaemonClient::connect_or_start(env));
    GEZEL_TRY(const json::value entry, client.get(fmt::format("/v1/models/{}", service::kDefaultModelName)));
    std::string id = entry.is_object() ? string_or(entry.get_object(), "id") : std::string();
    if (id.empty()) {
      return fail(ErrorKind::corrupt, std::string(kCodeBadReply),
                  "The daemon did not say which model is the default");
    }
    return ModelAtDaemon{std::move(client), std::move(id)};
  }
  // Only models of the store can be judged without a daemon; other providers are its business.
  const bool local = qualified(argument).starts_with(fmt::format("{}:", kLocalProvider));
  if (local && !service::find_daemon(env.home)) {
    GEZEL_CHECK(resolve_model(argument, stored_models(env)));
  }
  GEZEL_TRY(DaemonClient client, DaemonClient::connect_or_start(env));
  GEZEL_TRY(const std::vector<std::string> known, offered_models(client));
  GEZEL_TRY(std::string model, resolve_model(argument, known));
  return ModelAtDaemon{std::move(client), std::move(model)};
}

}  // namespace gezel::cli
