// The model for requests that name none (spec 60 section 15): the pinned one, or what stands in for it, and
// what is settled for the user at a start.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "engine/on_pool.h"
#include "service/service_core.h"

namespace gezel::service {

using catalog::Backend;
using engine::on_pool;

std::vector<models::InstalledChoice> ServiceCore::choices() const {
  std::vector<models::InstalledChoice> out;
  for (const auto& model : inventory_.installed) {
    if (!installs_.is_removing(model.id))
      out.push_back({.id = model.id, .installed_at = model.installed_at, .size_bytes = model.size_bytes});
  }
  return out;
}

Result<ModelName> ServiceCore::pick_default() const {
  if (!pins_.provider.empty() && pins_.provider != kLlamaProvider) {
    return fail(
        ErrorKind::not_found, "model_not_found",
        fmt::format("the default provider is \"{0}\", which is not part of this version; name a model as "
                    "\"{1}:<model>\", or set \"provider\" of config.json to \"{1}\"",
                    pins_.provider, kLlamaProvider),
        "model");
  }
  auto id = models::default_model(pins_, Backend::llama_cpp, choices(), installs_.running());
  if (id) return ModelName{std::string(kLlamaProvider), std::move(*id)};
  Error error = std::move(id).error();
  const auto pin = pins_.default_model.find(std::string(kLlamaProvider));
  if (pin != pins_.default_model.end() && error.kind == ErrorKind::not_found)
    error.message += fmt::format(" (`gezel pull {}` installs the default)", pin->second);
  return std::unexpected(std::move(error));
}

asio::awaitable<api::ApiResult<ModelName>> ServiceCore::default_model() {
  const auto core = shared_from_this();
  if (stopping_) co_return std::unexpected(api::shutting_down());
  auto name = pick_default();
  if (!name) {
    // It may have been installed by hand since the last look.
    co_await refresh();
    name = pick_default();
  }
  if (name) co_return std::move(*name);
  co_return std::unexpected(api::not_found("model_not_found", name.error().message, "model"));
}

asio::awaitable<json::value> ServiceCore::describe_default() {
  const auto core = shared_from_this();
  if (!stopping_) co_await refresh();
  const auto pin = pins_.default_model.find(std::string(kLlamaProvider));
  const auto name = pick_default();
  json::object out{{"provider", pins_.provider.empty() ? kLlamaProvider : std::string_view(pins_.provider)}};
  out["pinned"] = pin == pins_.default_model.end() ? json::value() : json::value(pin->second);
  out["model"] = name ? json::value(name->qualified()) : json::value();
  if (!name) out["reason"] = name.error().message;
  co_return out;
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::pin_default(std::string model) {
  const auto core = shared_from_this();
  auto name = co_await usable_model(std::move(model), For::use);
  if (!name) co_return std::unexpected(name.error());
  const models::Pins before = pins_;
  pins_.provider = name->provider;
  pins_.default_model[name->provider] = name->model;
  if (const auto saved = co_await save_pins(Wrong::replace); !saved) {
    pins_ = before;
    co_return std::unexpected(api::from_error(saved.error()));
  }
  co_return co_await describe_default();
}

asio::awaitable<Result<>> ServiceCore::save_pins(Wrong wrong) {
  const Busy busy(shared_from_this());
  co_return co_await on_pool(parts_.pool, [home = options_.home, pins = pins_, wrong] {
    return change_config(home, [&](json::object& members) {
      const auto problems =
          wrong == Wrong::keep ? parse_config(to_json(members)).problems : std::vector<ConfigProblem>();
      const auto writable = [&](std::string_view pointer) {
        return std::ranges::none_of(problems, [&](const auto& each) { return each.pointer == pointer; });
      };
      if (writable("/provider")) members["provider"] = pins.provider;
      if (writable("/defaultModel")) {
        auto* models = members["defaultModel"].if_object();
        if (models == nullptr) models = &members["defaultModel"].emplace_object();
        for (const auto& [provider, id] : pins.default_model) {
          if (writable("/defaultModel/" + provider)) (*models)[provider] = id;
        }
      }
      if (writable("/firstRunCompleted")) members["firstRunCompleted"] = true;
    });
  });
}

asio::awaitable<void> ServiceCore::settle_pins() {
  co_await installs_.know_shelf();
  if (stopping_) co_return;
  const auto& shelf = installs_.shelf();
  const models::Pins before = pins_;
  const bool first_run = pins_.provider.empty() && !options_.first_run_completed;
  if (first_run) pins_.provider = kLlamaProvider;
  if (pins_.provider != kLlamaProvider) co_return;
  const std::string provider(kLlamaProvider);
  if (!installs_.running()) {
    std::string recommended;
    if (shelf) {
      const auto best = std::ranges::find_if(shelf->items, [&](const ShelfItem& item) {
        const auto id = catalog::parse_qualified_id(item.id);
        return item.rated && item.rated->recommended && id && id->backend == Backend::llama_cpp &&
               installed(id->id) != nullptr;
      });
      if (best != shelf->items.end()) recommended = catalog::parse_qualified_id(best->id)->id;
    }
    if (const auto id = models::reconcile_pin(pins_, Backend::llama_cpp, choices(), recommended)) {
      log_info("another default model is pinned", {{"model", *id}});
      pins_.default_model[provider] = *id;
    }
  }
  // Nothing is downloaded for it; it is what an error offers while nothing is installed.
  if (first_run && shelf && !shelf->first_choice.empty() && choices().empty())
    pins_.default_model.try_emplace(provider, shelf->first_choice);
  const bool changed =
      first_run || pins_.default_model != before.default_model || pins_.provider != before.provider;
  if (!changed) co_return;
  if (const auto saved = co_await save_pins(Wrong::keep); !saved)
    log_warn("the default model is not kept", {{"reason", saved.error().message}});
}

}  // namespace gezel::service
