// Prompts that are kept: looking at them and changing them, per model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/log.h"
#include "capacity/budget.h"
#include "engine/on_pool.h"
#include "engine_llama/prompt_cache_folder.h"

#include "service/service_core.h"

namespace gezel::service {

using Op = engine::CacheQuery::Op;

namespace {

// What there is nothing of is forgotten already.
bool keeps_nothing(const engine::EngineError& error) {
  constexpr std::array<std::string_view, 4> kNothing = {"model_not_loaded", "cache-off", "cache-node-unknown",
                                                        "unsupported-feature"};
  return std::ranges::find(kNothing, error.error.code) != kNothing.end();
}

// Node by node from the roots; the first error, after all that can go has gone.
asio::awaitable<std::optional<engine::EngineError>> drop_all(engine::Engine& engine) {
  std::optional<engine::EngineError> first;
  const auto note = [&](const engine::EngineError& error) {
    if (!first && !keeps_nothing(error)) first = error;
  };
  const auto kept = co_await engine.cache({});
  if (!kept) {
    note(kept.error());
    co_return first;
  }
  for (const auto& node : kept->nodes) {
    if (node.parent != 0) continue;  // goes with its root
    engine::CacheQuery drop;
    drop.op = Op::drop;
    drop.node = node.id;
    const auto dropped = co_await engine.cache(std::move(drop));
    if (!dropped) note(dropped.error());
  }
  co_return first;
}

}  // namespace

asio::awaitable<api::ApiResult<CacheAnswer>> ServiceCore::cache(api::CacheRequest request) {
  if (stopping_) co_return std::unexpected(api::shutting_down());
  const bool warm = request.query.op == Op::warm;
  const auto name = co_await usable_model(request.model, warm && request.start ? For::use : For::question);
  if (!name && warm && name.error().code == "model_not_loaded") {
    co_return CacheAnswer{
        .model = std::move(request.model), .outcome = CacheAnswer::Outcome::not_loaded, .reply = {}};
  }
  if (!name) co_return std::unexpected(name.error());
  CacheAnswer answer{.model = name->qualified(), .outcome = CacheAnswer::Outcome::done, .reply = {}};

  std::shared_ptr<engine::Engine> engine = engines_.find(answer.model);
  const bool loaded = engine && engine->status().state == engine::State::ready;
  if (!loaded && !(warm && request.start)) {
    // A hint that comes too early is no mistake of whoever gives it.
    if (warm) {
      answer.outcome = CacheAnswer::Outcome::not_loaded;
      co_return answer;
    }
    co_return std::unexpected(api::not_found(
        "model_not_loaded",
        fmt::format("the model \"{}\" is not loaded; it keeps prompts while it is", answer.model), "model"));
  }
  if (!loaded) {
    auto made = engines_.get(answer.model);
    if (!made) co_return std::unexpected(api::from_engine(made.error()));
    engine = std::move(*made);
  }
  if (request.query.request) {
    // As the request itself would be sent.
    if (warm) request.query.request->lane = prompt::Lane::background;
    co_await put_sampled(std::move(request.app), *name, *request.query.request);
  }
  if (!warm || request.wait) {
    auto reply = co_await ask_cache(std::move(engine), std::move(request.query), request.start);
    if (!reply) co_return std::unexpected(api::from_engine(reply.error()));
    answer.reply = std::move(*reply);
    co_return answer;
  }
  answer.outcome = CacheAnswer::Outcome::accepted;
  spawn_background(warm_quietly(answer.model, std::move(engine), std::move(request.query), request.start),
                   [] {});
  co_return answer;
}

asio::awaitable<engine::EngineResult<engine::CacheReply>> ServiceCore::ask_cache(
    std::shared_ptr<engine::Engine> engine, engine::CacheQuery query, bool start) {
  if (start) {
    auto ready = co_await engine->ensure_ready();
    if (!ready) co_return std::unexpected(std::move(ready).error());
  }
  co_return co_await engine->cache(std::move(query));
}

asio::awaitable<void> ServiceCore::warm_quietly(std::string model, std::shared_ptr<engine::Engine> engine,
                                                engine::CacheQuery query, bool start) {
  const auto reply = co_await ask_cache(std::move(engine), std::move(query), start);
  if (reply) {
    log_info("prompt kept", {{"model", model},
                             {"prompt_tokens", std::to_string(reply->tokens)},
                             {"cached_tokens", std::to_string(reply->cached_tokens)}});
  } else {
    log_warn("a prompt was not computed ahead", {{"model", model}, {"code", reply.error().error.code}});
  }
}

asio::awaitable<json::value> ServiceCore::cache_stats() {
  const auto core = shared_from_this();
  json::array providers;
  const Bytes ram = parts_.admission ? parts_.admission->machine().total_ram : 0;
  for (const auto& listed : engines_.list()) {
    const auto engine = engines_.find(listed.model_id);
    if (!engine || listed.status.state != engine::State::ready) continue;
    co_await engine->worker_stats();  // what it holds now
    const auto use = engine->cache_use();
    if (!use) continue;
    json::object provider = api::cache_use_json(*use);
    provider["providerName"] = kLlamaProvider;
    provider["engineKey"] = listed.model_id + ":0";  // one replica of each model
    provider["generation"] = listed.status.generation;
    provider["defaultBudgetBytes"] =
        ram > 0 ? json::value(capacity::default_prompt_cache(ram)) : json::value();
    provider["systemRamBytes"] = ram > 0 ? json::value(ram) : json::value();
    providers.push_back(std::move(provider));
  }
  co_return json::object{{"providers", std::move(providers)}};
}

// Of every model: a session is not tied to one. Those that are loaded forget it themselves, and then whatever
// else is on the disk goes.
asio::awaitable<api::ApiResult<void>> ServiceCore::evict_session(std::string key) {
  const auto core = shared_from_this();
  api::ApiResult<void> result;
  for (const auto& listed : engines_.list()) {
    const auto engine = engines_.find(listed.model_id);
    if (!engine || listed.status.state != engine::State::ready) continue;
    engine::CacheQuery drop;
    drop.op = Op::drop;
    drop.session = key;
    const auto dropped = co_await engine->cache(std::move(drop));
    if (dropped || keeps_nothing(dropped.error())) continue;
    log_warn("a session was not forgotten",
             {{"model", listed.model_id}, {"code", dropped.error().error.code}});
    if (result) result = std::unexpected(api::from_engine(dropped.error()));
  }
  const auto removed = co_await engine::on_pool(
      parts_.pool, [home = options_.home, key] { return engine_llama::forget_session_on_disk(home, key); });
  if (!removed) {
    log_warn("a session was not forgotten", {{"reason", removed.error().message}});
    if (result) result = std::unexpected(api::from_error(removed.error()));
  }
  co_return result;
}

asio::awaitable<api::ApiResult<void>> ServiceCore::clear_cache(std::string provider) {
  const auto core = shared_from_this();
  api::ApiResult<void> result;
  for (const auto& listed : engines_.list()) {
    const std::string& id = listed.model_id;
    if (provider != kLlamaProvider && provider != id && provider != id + ":0") continue;
    const auto engine = engines_.find(id);
    if (!engine || listed.status.state != engine::State::ready) continue;
    if (const auto error = co_await drop_all(*engine); error && result)
      result = std::unexpected(api::from_engine(*error));
  }
  co_return result;
}

}  // namespace gezel::service
