// Answers from what is in memory or was last seen on disk: lists, single models, health, what is loaded.
#include "service/service_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "engine/on_pool.h"
#include "models/manifest.h"
#include "service/os.h"

namespace gezel::service {
namespace {

// How old a look at the disk may be before a listing asks for the next one.
constexpr Millis kScanAge{1'000};

// Lanes that have something to do, by name.
json::object lanes_json(const engine::LaneLoads& lanes) {
  constexpr std::array<std::string_view, 3> kNames{"interactive", "background", "batch"};
  json::object out;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (lanes[i].running + lanes[i].queued > 0)
      out[kNames[i]] = json::object{{"running", lanes[i].running}, {"queued", lanes[i].queued}};
  }
  return out;
}

// A model's workers, where it may have several.
json::array replicas_json(const std::vector<engine::ReplicaStatus>& replicas) {
  json::array out;
  for (const auto& one : replicas) {
    out.push_back(json::object{{"replica", one.replica},
                               {"state", engine::state_name(one.state)},
                               {"pid", one.pid > 0 ? json::value(one.pid) : json::value(nullptr)},
                               {"bytes", one.bytes},
                               {"slots", one.slots},
                               {"slots_busy", one.slots_busy},
                               {"context", one.context},
                               {"queued", one.queued},
                               {"sessions", one.sessions},
                               {"draining", one.draining}});
  }
  return out;
}

json::value unload_time(const std::optional<WallTime>& time) {
  return time ? json::value(iso_time(*time)) : json::value(nullptr);
}

json::object neighbour_json(const engine::NeighbourWatch* watch) {
  if (watch == nullptr) return {{"mode", "off"}};
  const auto others = watch->others_permille();
  return {{"mode", "auto"},
          {"state", watch->yielding() ? "yielding" : "normal"},
          {"since", iso_time(watch->since())},
          {"others_cpu", others ? json::value(*others / 1000.0) : json::value()}};
}

#if defined(__APPLE__)
constexpr std::string_view kPlatform = "darwin";
#else
constexpr std::string_view kPlatform = "linux";
#endif

}  // namespace

ServiceCore::ServiceCore(ServiceParts parts, ServiceOptions options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      started_at_(parts_.clock.wall_now()),
      pins_(options_.pins),
      store_(options_.home, parts_.clock, parts_.entropy, kLlamaProvider, options_.installs.machine),
      engines_([this](const std::string& model_id) { return parts_.make_engine(model_id, store_); }),
      scanned_(parts_.loop),
      prepared_changed_(parts_.loop),
      stopped_changed_(parts_.loop),
      background_done_(parts_.loop),
      installs_(*this, parts_.installs),
      bundles_(*this),
      catalog_updates_(*this, parts_.installs, options_.catalog_updates) {}

ServiceCore::~ServiceCore() = default;

void ServiceCore::start() {
  // Done here and not in the background: it is a handful of small files, and the first list must be right.
  store_.recover();
  inventory_ = store_.inventory();
  scanned_at_ = parts_.clock.now();
  for (const auto& model : inventory_.unrecognized) {
    log_warn("a model cannot be used", {{"model", model.id}, {"reason", model.reason}});
  }
  if (parts_.pressure) parts_.pressure->start();
  if (parts_.gpu) parts_.gpu->safety().refresh();
  if (parts_.neighbour)
    parts_.neighbour->start([this] { return own_processes(); },
                            [this](engine::Manners manners) { engines_.set_manners(manners); });
  prepare_soon();
  verify_soon();
  installs_.start();
  bundles_.start();
  spawn_background(settle_pins(), [] {});
  if (parts_.survey_gpus) spawn_background(survey_gpus(), [] {});
  catalog_updates_.start();
}

asio::awaitable<void> ServiceCore::survey_gpus() {
  gpus_ = co_await engine::on_pool(parts_.pool, parts_.survey_gpus);
}

KnownModels ServiceCore::known() const {
  KnownModels out;
  for (const auto& model : inventory_.installed) out.installed.push_back(model.id);
  for (const auto& model : inventory_.unrecognized) out.unusable.push_back(model.id);
  out.defaults = pins_.default_model;
  out.stand_in = models::substitute(choices()).value_or("");
  return out;
}

const models::InstalledModel* ServiceCore::installed(std::string_view id) const {
  const auto found = std::find_if(inventory_.installed.begin(), inventory_.installed.end(),
                                  [&](const auto& model) { return model.id == id; });
  return found == inventory_.installed.end() ? nullptr : &*found;
}

const models::UnrecognizedModel* ServiceCore::unrecognized(std::string_view id) const {
  const auto found = std::find_if(inventory_.unrecognized.begin(), inventory_.unrecognized.end(),
                                  [&](const auto& model) { return model.id == id; });
  return found == inventory_.unrecognized.end() ? nullptr : &*found;
}

api::ApiError ServiceCore::unusable(const ModelName& name) const {
  const auto* model = name.provider == kLlamaProvider ? unrecognized(name.model) : nullptr;
  if (model == nullptr) return model_not_found(name, known());
  return api::from_engine(engine::make_error(
      "model-invalid", fmt::format("the model \"{}\" cannot be used: {}", name.qualified(), model->reason),
      "model"));
}

// Of the contents where they were hashed, of the files as they lie there before.
std::string ServiceCore::fingerprint_of(std::string_view id) const {
  const auto* model = installed(id);
  if (model == nullptr) return {};
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [file, stamp] : model->stamps) {
    const auto digest = model->sha256.find(file);
    const bool hashed = digest != model->sha256.end() && !digest->second.empty();
    files.emplace_back(
        fs::path(file).filename().string(),
        hashed ? digest->second : fmt::format("{}:{}:{}", stamp.size, stamp.mtime_ns, stamp.inode));
  }
  return models::payload_fingerprint("", files);
}

ModelFacts ServiceCore::facts_of(const ModelName& name) {
  ModelFacts facts;
  facts.context_wanted = options_.context;
  const std::string key = name.qualified();
  if (const auto engine = engines_.find(key)) {
    const engine::Status status = engine->status();
    if (status.state == engine::State::ready) {
      facts.context_granted = status.context;
      facts.slots = status.slots;
      facts.below_floor = status.below_floor;
    }
    if (!status.chat_template.empty()) default_templates_[key] = status.chat_template;
    if (auto measured = performance_of(status, parts_.clock.wall_now()))
      performance_[key] = std::move(*measured);
  }
  if (const auto found = planned_.find(key); found != planned_.end()) {
    if (found->second.context > 0) facts.context_planned = found->second.context;
    if (facts.context_granted == 0) {
      facts.below_floor = found->second.below_floor;
      facts.slots = found->second.slots;
    }
  }
  if (const auto found = default_templates_.find(key); found != default_templates_.end()) {
    facts.default_template = found->second;
  }
  if (const auto found = performance_.find(key); found != performance_.end())
    facts.performance = found->second;
  return facts;
}

asio::awaitable<json::value> ServiceCore::list_models() {
  // A model whose file is back must not be missing for a moment longer: whoever reads the list acts on it.
  if ((!inventory_.unrecognized.empty() || scans_done_ < fresh_from_) && !stopping_) {
    co_await refresh();
  } else {
    scan_if_old();
  }
  json::array data;
  for (const auto& model : inventory_.installed) {
    data.push_back(list_entry(model, facts_of({std::string(kLlamaProvider), model.id})));
  }
  data = co_await installs_.with_offers(std::move(data));
  co_return json::object{{"object", "list"}, {"data", std::move(data)}};
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::retrieve_model(std::string id) {
  scan_if_old();
  const auto name = co_await usable_model(id);
  if (!name) {
    if (auto offer = co_await installs_.offer(std::move(id))) co_return std::move(*offer);
    co_return std::unexpected(name.error());
  }
  const auto* model = installed(name->model);
  if (model == nullptr) co_return std::unexpected(unusable(*name));
  // A copy, because the inventory may be another one after the wait.
  const models::InstalledModel found = *model;
  auto profile = co_await profile_of(*name, found);
  co_await plan_window(*name);
  ModelFacts facts = facts_of(*name);
  facts.profile = std::move(profile);
  json::object entry = full_entry(found, facts);
  if (const auto known = co_await calibration_of(*name)) add_calibration(entry, *known);
  co_await installs_.know_shelf();
  installs_.describe(found, entry);
  co_return entry;
}

json::value ServiceCore::health() const {
  if (stopping_) return json::object{{"ok", false}, {"stopping", true}};
  return json::object{
      {"ok", true},
      {"version", options_.version},
      {"startedAt", iso_time(started_at_)},
      {"platform", kPlatform},
      {"serviceRole", "user"},
      {"embeddings", {{"status", "disabled"}, {"reason", "this version serves no embeddings"}}},
      {"ds4ServerBundled", false},
  };
}

json::value ServiceCore::ps() {
  json::array out;
  for (const auto& [id, status] : engines_.list()) {
    json::object model{{"id", id},
                       {"state", engine::state_name(status.state)},
                       {"pid", status.pid > 0 ? json::value(status.pid) : json::value(nullptr)},
                       {"bytes", status.bytes},
                       {"slots", status.slots},
                       {"slots_busy", status.slots_busy},
                       {"context", status.context},
                       {"queued", status.queued},
                       {"lanes", lanes_json(status.lanes)},
                       {"threads", status.threads},
                       {"nice", status.nice},
                       {"idle_ms", status.idle_ms},
                       {"unload_at", unload_time(status.unload_at)}};
    if (!status.kv_type.empty()) {
      model["flash_attention"] = status.flash_attention;
      model["kv_type"] = status.kv_type;
    }
    if (!status.draft_model.empty()) model["draft_model"] = status.draft_model;
    if (!status.draft_unused.empty()) model["draft_unused"] = status.draft_unused;
    if (status.decode_tps > 0) model["decode_tps"] = status.decode_tps;
    if (status.prefill_tps > 0) model["prefill_tps"] = status.prefill_tps;
    if (!status.waiting.empty()) model["waiting"] = status.waiting;
    if (!status.stale.empty()) model["stale"] = status.stale;
    if (!status.replicas.empty()) model["replicas"] = replicas_json(status.replicas);
    out.push_back(std::move(model));
  }
  return json::object{{"models", std::move(out)}, {"neighbour", neighbour_json(parts_.neighbour.get())}};
}

std::vector<int> ServiceCore::own_processes() const {
  std::vector<int> out{static_cast<int>(own_pid())};
  for (const auto& [id, status] : engines_.list()) {
    if (status.replicas.empty() && status.pid > 0) out.push_back(static_cast<int>(status.pid));
    for (const auto& one : status.replicas)
      if (one.pid > 0) out.push_back(static_cast<int>(one.pid));
  }
  return out;
}

void ServiceCore::scan_if_old() {
  if (!stopping_ && parts_.clock.now() - scanned_at_ >= kScanAge) scan_soon();
}

}  // namespace gezel::service
