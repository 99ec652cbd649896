// Work that waits: for the disk, for engines, for the end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>

#include "base/log.h"
#include "engine/on_pool.h"
#include "engine_llama/launch_tuning.h"
#include "gguf/metadata.h"
#include "models/profile_files.h"
#include "prompt/behaviors.h"
#include "prompt/normalise.h"
#include "service/running.h"
#include "service/service_core.h"

namespace gezel::service {

using engine::on_pool;

namespace {

// A text member of an import request, or its default. Another type is an error that names it.
api::ApiResult<std::string> text_member(const json::object& request, std::string_view key,
                                        std::string_view fallback) {
  const auto* value = request.if_contains(key);
  if (value == nullptr || value->is_null()) return std::string(fallback);
  if (value->is_string()) return std::string(value->get_string());
  return std::unexpected(
      api::invalid_request("invalid_body", fmt::format("{}: must be a text", key), std::string(key)));
}

api::ApiResult<models::ImportRequest> parse_import(const json::object& request) {
  constexpr std::array<std::string_view, 6> kMembers{"path", "mode", "id", "name", "mmproj", "backend"};
  for (const auto& member : request) {
    if (std::find(kMembers.begin(), kMembers.end(), member.key()) == kMembers.end()) {
      return std::unexpected(api::invalid_request(
          "invalid_body", fmt::format("{}: is not a member of an import", std::string_view(member.key())),
          std::string(member.key())));
    }
  }
  models::ImportRequest out;
  GEZEL_TRY(out.path, text_member(request, "path", ""));
  GEZEL_TRY(out.mode, text_member(request, "mode", out.mode));
  GEZEL_TRY(out.id, text_member(request, "id", ""));
  GEZEL_TRY(out.name, text_member(request, "name", ""));
  GEZEL_TRY(out.mmproj, text_member(request, "mmproj", ""));
  GEZEL_TRY(const std::string backend, text_member(request, "backend", kLlamaProvider));
  if (out.path.empty()) {
    return std::unexpected(
        api::invalid_request("invalid_body", "path: must be the absolute path of a model file", "path"));
  }
  if (backend != kLlamaProvider) {
    return std::unexpected(api::invalid_request(
        "unsupported_backend",
        fmt::format("backend is \"{}\"; this version imports for {} only", backend, kLlamaProvider),
        "backend"));
  }
  return out;
}

constexpr int kMostCopies = 4;  // imports that run or wait for a thread
constexpr int kCopiesRetrySeconds = 10;

api::ApiError too_many_copies() {
  return api::too_many("too_many_copies",
                       fmt::format("{} imports are under way already, the most at a time; try again when one "
                                   "of them has ended, or use "
                                   "mode "
                                   "\"reference\", which copies nothing",
                                   kMostCopies),
                       kCopiesRetrySeconds);
}

// Callers of an import are local people: they may see paths, and 507 says more than 500.
api::ApiError import_error(const Error& error) {
  api::ApiError out = api::from_error(error);
  if (error.code == "insufficient_disk") {
    out.status = 507;
    out.message = error.message;
  }
  return out;
}

}  // namespace

void ServiceCore::spawn_background(asio::awaitable<void> work, std::function<void()> failed) {
  auto busy = std::make_unique<Busy>(shared_from_this());
  asio::co_spawn(parts_.loop, std::move(work),
                 [busy = std::move(busy), failed = std::move(failed)](const std::exception_ptr& problem) {
                   if (!problem) return;
                   // A bug or no memory: the work is lost, the service is not.
                   log_error("background work ended unexpectedly");
                   failed();
                 });
}

void ServiceCore::prepare_soon() {
  // Orphans that could not be ended cost memory; requests that wait for it would cost the service.
  spawn_background(prepare(), [this] {
    prepared_ = true;
    prepared_changed_.notify();
  });
}

asio::awaitable<void> ServiceCore::prepare() {
  co_await on_pool(parts_.pool, [home = options_.home] {
    models::log_problems(models::read_profiles(home));
    return true;
  });
  if (parts_.reap_orphans) {
    co_await on_pool(parts_.pool, [reap = parts_.reap_orphans] {
      reap();
      return true;
    });
  }
  if (options_.replay_store) {
    auto opened = co_await on_pool(parts_.pool, [this] {
      return replay::Store::open(options_.home / "replay" / "calls.db", parts_.clock);
    });
    if (opened) {
      replay_ = std::move(*opened);
    } else {
      log_warn("tool calls will not be kept", {{"reason", opened.error().message}});
    }
  }
  prepared_ = true;
  prepared_changed_.notify();
}

void ServiceCore::scan_soon() {
  ++scans_wanted_;
  if (std::exchange(scanning_, true)) return;
  // Without a new look the last one stands.
  spawn_background(scan_loop(), [this] {
    scanning_ = false;
    scans_done_ = scans_wanted_;
    scanned_.notify();
  });
}

asio::awaitable<void> ServiceCore::scan_loop() {
  while (scans_done_ < scans_wanted_) {
    const std::uint64_t target = scans_wanted_;
    inventory_ = co_await on_pool(parts_.pool, [this] { return store_.inventory(); });
    scanned_at_ = parts_.clock.now();
    scans_done_ = target;
    scanned_.notify();
    if (inventory_.machine_unread && !stopping_) verify_machine_soon();
  }
  scanning_ = false;
}

asio::awaitable<void> ServiceCore::refresh() {
  scan_soon();
  const std::uint64_t wanted = scans_wanted_;
  while (scans_done_ < wanted) {
    if (!co_await scanned_.wait()) co_return;
  }
}

void ServiceCore::verify_soon() {
  verify_wanted_ = true;
  verify_machine_soon();
}

void ServiceCore::verify_machine_soon() {
  verify_machine_wanted_ = true;
  if (std::exchange(verifying_, true)) return;
  spawn_background(verify_loop(), [this] { verifying_ = false; });
}

// One model after the other: hashing several at once would only make each slower.
asio::awaitable<void> ServiceCore::verify_loop() {
  while (std::exchange(verify_machine_wanted_, false)) {
    std::vector<models::InstalledModel> all;
    if (std::exchange(verify_wanted_, false)) all = inventory_.installed;
    for (const auto& model : all) {
      if (stopping_) break;
      using Outcome = std::optional<Result<>>;
      const Outcome outcome = co_await on_pool(parts_.slow_pool, [this, model, go_on = go_on_]() -> Outcome {
        if (store_.check(model) == models::Integrity::unchanged) return std::nullopt;
        return store_.verify(model, [&](Bytes) { return go_on->load(); });
      });
      if (!outcome) continue;
      if (*outcome) {
        log_info("the model's files are verified", {{"model", model.id}});
      } else if (outcome->error().kind != ErrorKind::cancelled) {
        log_warn("the model's files could not be verified",
                 {{"model", model.id}, {"error", outcome->error().message}});
      }
      if (!stopping_) scan_soon();
    }
    if (stopping_) break;
    const bool more = co_await on_pool(parts_.slow_pool, [this, go_on = go_on_] {
      return store_.verify_machine_models([&](Bytes) { return go_on->load(); });
    });
    if (stopping_) break;
    if (more) scan_soon();
  }
  verifying_ = false;
}

asio::awaitable<api::ApiResult<ModelName>> ServiceCore::usable_model(std::string text, For what) {
  if (text == kDefaultModelName && installed(text) == nullptr) co_return co_await default_model();
  if (text.starts_with(kDiscoveredPrefix)) {
    if (what == For::use) co_return co_await installs_.adopt(std::move(text));
    co_return co_await installs_.known_as(std::move(text));
  }
  if (auto meant = installs_.by_alias(text)) co_return std::move(*meant);
  auto name = co_await installed_model(text);
  if (!name && name.error().code == "model_not_found")
    name = co_await installs_.by_catalog(std::move(text), name.error());
  if (name && installs_.is_removing(name->model)) co_return std::unexpected(model_not_found(*name, known()));
  co_return name;
}

asio::awaitable<void> ServiceCore::forget_model(ModelName name) {
  co_await engines_.refresh(name.qualified());
  default_templates_.erase(name.qualified());
  performance_.erase(name.qualified());
  planned_.erase(name.qualified());
}

asio::awaitable<api::ApiResult<ModelName>> ServiceCore::installed_model(std::string text) {
  auto name = resolve_model_name(text, known());
  const auto found = [&] {
    return name && name->provider == kLlamaProvider && installed(name->model) != nullptr;
  };
  if (found()) co_return name;
  if (!name && name.error().code != "model_not_found") co_return name;
  if (name && name->provider != kLlamaProvider) co_return std::unexpected(model_not_found(*name, known()));
  // It may have been installed by hand, or its file may be back, since we last looked.
  co_await refresh();
  name = resolve_model_name(text, known());
  if (!name || found()) co_return name;
  co_return std::unexpected(unusable(*name));
}

asio::awaitable<std::optional<json::object>> ServiceCore::profile_of(ModelName name,
                                                                     models::InstalledModel model) {
  if (const auto engine = engines_.find(name.qualified())) {
    if (auto loaded = parse_json(engine->status().profile); loaded && loaded->is_object())
      co_return std::move(loaded->get_object());
  }
  using Profile = std::optional<json::object>;
  co_return co_await on_pool(
      parts_.pool,
      [home = options_.home, switches = options_.behaviors, catalog = parts_.installs->catalog,
       wishes = engine_llama::EmbeddedOptions{.context = options_.context,
                                              .flash_attention = options_.flash_attention,
                                              .threads = options_.threads,
                                              .speculation = options_.speculation,
                                              .draft = options_.draft},
       model = std::move(model)]() -> Profile {
        const auto metadata = gguf::read_metadata(model.weights);
        if (!metadata) return std::nullopt;
        const auto tuning = models::catalog_tuning(*catalog, model);
        auto applied = models::profile_for(models::read_profiles(home), model.id, *metadata, tuning);
        applied.style.behaviors = prompt::switched(applied.style.behaviors, switches).behaviors;
        auto out = profiles::to_json_object(applied);
        if (!tuning) return out;
        auto launch =
            engine_llama::launch_tuning_json(engine_llama::judge_launch_tuning(tuning->launch, wishes));
        if (!launch.empty()) out["launch"] = std::move(launch);
        return out;
      });
}

asio::awaitable<api::ApiResult<std::unique_ptr<engine::Generation>>> ServiceCore::chat(
    std::string model, std::string caller, prompt::GenerateRequest request) {
  if (stopping_) co_return std::unexpected(api::shutting_down());
  const auto name = co_await usable_model(std::move(model), For::use);
  if (!name) co_return std::unexpected(name.error());
  while (!prepared_ && !stopping_) {
    if (!co_await prepared_changed_.wait()) break;
  }
  if (stopping_) co_return std::unexpected(api::shutting_down());
  const auto engine = engines_.get(name->qualified());
  if (!engine) co_return std::unexpected(api::from_engine(engine.error()));
  request.queue.caller = caller;
  co_await put_sampled(std::move(caller), *name, request);
  auto generation = co_await (*engine)->generate(std::move(request));
  if (!generation) co_return std::unexpected(api::from_engine(generation.error()));
  co_return std::move(*generation);
}

// Answers with calls get the bytes that were sampled, and their calls and results the ids that the model
// wrote.
asio::awaitable<void> ServiceCore::put_sampled(std::string caller, const ModelName& name,
                                               prompt::GenerateRequest& request) {
  const auto has_calls = [](const prompt::Message& message) { return !message.tool_calls.empty(); };
  if (!replay_ || std::ranges::none_of(request.messages, has_calls)) co_return;
  const replay::Scope scope{std::move(caller), fingerprint_of(name.model)};
  const Busy busy(shared_from_this());
  request.messages = co_await on_pool(
      parts_.pool, [store = replay_.get(), scope, messages = std::move(request.messages)]() mutable {
        std::map<std::string, std::string, std::less<>> written;  // by id of the wire
        for (prompt::Message& message : messages) {
          if (message.role == prompt::Role::tool) {
            if (const auto id = written.find(message.tool_call_id); id != written.end())
              message.tool_call_id = id->second;
            continue;
          }
          if (message.tool_calls.empty()) continue;
          auto kept = store->find(scope, message.tool_calls, prompt::text_of(message));
          for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
            std::string& id = message.tool_calls[i].id;
            written.erase(id);
            if (!kept || kept->engine_ids[i].empty()) continue;
            written.emplace(id, kept->engine_ids[i]);
            id = kept->engine_ids[i];
          }
          if (kept) message.sampled = std::move(kept->sampled);
        }
        return std::move(messages);
      });
}

asio::awaitable<void> ServiceCore::keep_calls(std::string caller, std::string model,
                                              api::ChatMessage message) {
  if (!replay_ || !message.sampled || stopping_) co_return;
  const auto name = co_await usable_model(std::move(model));
  if (!name) co_return;
  replay::Answer answer;
  answer.content = std::move(message.content);
  answer.sampled = std::move(*message.sampled);
  for (auto& call : message.calls) {
    answer.calls.push_back({std::move(call.id), std::move(call.name), std::move(call.arguments)});
    answer.engine_ids.push_back(std::move(call.engine_id));
  }
  const replay::Scope scope{std::move(caller), fingerprint_of(name->model)};
  const Busy busy(shared_from_this());
  // The store itself says what went wrong.
  (void)co_await on_pool(parts_.pool, [store = replay_.get(), scope, answer = std::move(answer)] {
    return store->keep(scope, answer);
  });
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::stop_model(std::string model, bool force) {
  auto name = resolve_model_name(model, known());
  // A loaded model can be unloaded even when its files are gone.
  if (!name || !engines_.find(name->qualified())) {
    name = co_await usable_model(model);
    if (!name) co_return std::unexpected(name.error());
  }
  facts_of(*name);  // what it measured is kept
  const auto outcome = co_await engines_.stop(name->qualified(), force);
  if (!outcome) co_return std::unexpected(api::from_engine(outcome.error()));
  co_return json::object{{"stopped", name->qualified()}};
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::import_model(json::object body) {
  if (stopping_) co_return std::unexpected(api::shutting_down());
  auto request = parse_import(body);
  if (!request) co_return std::unexpected(request.error());
  const bool copies = request->mode != "reference";
  if (copies && copying_ >= kMostCopies) co_return std::unexpected(too_many_copies());
  const Busy busy(shared_from_this());  // stop() waits until the store is left alone
  const Counted copying(copying_, copies ? 1 : 0);
  const auto model = co_await on_pool(
      copies ? parts_.slow_pool : parts_.pool, [this, request = std::move(*request), go_on = go_on_] {
        auto imported = store_.import(request, [&](Bytes) { return go_on->load(); });
        if (imported) lift_quarantine(options_.home, parts_.clock, imported->id);
        return imported;
      });
  if (!model) {
    if (stopping_) co_return std::unexpected(api::shutting_down());
    co_return std::unexpected(import_error(model.error()));
  }
  co_await refresh();
  verify_soon();
  co_await forget_model({std::string(kLlamaProvider), model->id});
  co_return json::object{{"model", import_entry(*model)}};
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::worker_stats(std::string model) {
  const auto name = co_await usable_model(std::move(model));
  if (!name) co_return std::unexpected(name.error());
  const auto engine = engines_.find(name->qualified());
  std::optional<std::string> text;
  if (engine) text = co_await engine->worker_stats();
  if (!text) {
    co_return std::unexpected(api::not_found(
        "model_not_loaded", fmt::format("the model \"{}\" is not loaded", name->qualified()), "model"));
  }
  auto parsed = parse_json(*text);
  if (!parsed) co_return std::unexpected(api::internal_error(parsed.error().message));
  if (replay_ && parsed->is_object()) {
    const replay::Counters counters = replay_->counters();
    parsed->get_object()["replay"] = json::object{{"answers", counters.records},
                                                  {"bytes", counters.bytes},
                                                  {"hits", counters.hits},
                                                  {"misses", counters.misses}};
  }
  co_return std::move(*parsed);
}

void ServiceCore::begin_stop() {
  stopping_ = true;
  go_on_->store(false);
  if (parts_.stop_programs) parts_.stop_programs();
  if (parts_.pressure) parts_.pressure->stop();
  if (parts_.neighbour) parts_.neighbour->stop();
  if (parts_.gpu) parts_.gpu->safety().stop();
  installs_.begin_stop();
  bundles_.begin_stop();
  catalog_updates_.begin_stop();
  prepared_changed_.notify();
}

asio::awaitable<void> ServiceCore::stop() {
  begin_stop();
  if (std::exchange(stop_begun_, true)) {
    while (!stopped_) {
      if (!co_await stopped_changed_.wait()) co_return;
    }
    co_return;
  }
  co_await engines_.stop_all();
  while (background_ > 0) {
    if (!co_await background_done_.wait()) break;
  }
  stopped_ = true;
  stopped_changed_.notify();
}

}  // namespace gezel::service
