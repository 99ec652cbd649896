// What was measured of models' speed (spec 35 section 3): of a loaded one its engine says, of others the
// records.
#include <fmt/format.h>

#include <algorithm>

#include "engine/on_pool.h"
#include "engine_llama/calibration_record.h"
#include "service/service_core.h"

namespace gezel::service {

using engine::on_pool;
using engine_llama::CalibrationRecord;
using engine_llama::CalibrationStore;

namespace {

json::object record_json(const CalibrationRecord& record) {
  json::object out = engine_llama::describe_calibration(record, "f16");
  out["state"] = "stored";
  out["progress"] = record.complete ? 1.0 : 0.0;
  return out;
}

}  // namespace

asio::awaitable<std::optional<json::object>> ServiceCore::calibration_of(ModelName name) {
  if (const auto engine = engines_.find(name.qualified())) {
    if (auto known = parse_json(engine->calibration()); known && known->is_object())
      co_return std::move(known->get_object());
  }
  const auto records =
      co_await on_pool(parts_.pool, [home = options_.home] { return CalibrationStore(home).all(); });
  // The newest that holds for a model of this name.
  const CalibrationRecord* newest = nullptr;
  for (const auto& record : records) {
    if (record.model_id != name.qualified()) continue;
    if (newest == nullptr || record.measured_at > newest->measured_at) newest = &record;
  }
  if (newest == nullptr) co_return std::nullopt;
  co_return record_json(*newest);
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::calibration(std::string model) {
  const auto name = co_await usable_model(model);
  if (!name && name.error().code == "model_not_loaded")
    co_return json::object{{"state", "unknown"}, {"progress", 0.0}, {"model", std::move(model)}};
  if (!name) co_return std::unexpected(name.error());
  auto known = co_await calibration_of(*name);
  json::object out = known ? std::move(*known) : json::object{{"state", "unknown"}, {"progress", 0.0}};
  out["model"] = name->qualified();
  co_return out;
}

asio::awaitable<json::value> ServiceCore::calibrations() {
  const auto records =
      co_await on_pool(parts_.pool, [home = options_.home] { return CalibrationStore(home).all(); });
  json::array models;
  for (const auto& record : records) {
    json::object one = record_json(record);
    one["model"] = record.model_id;
    one["cores"] = record.key.cores;
    models.push_back(std::move(one));
  }
  co_return json::object{{"models", std::move(models)}};
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::calibrate(std::string model) {
  if (stopping_) co_return std::unexpected(api::shutting_down());
  const auto name = co_await usable_model(std::move(model), For::use);
  if (!name) co_return std::unexpected(name.error());
  const auto engine = engines_.get(name->qualified());
  if (!engine) co_return std::unexpected(api::from_engine(engine.error()));
  if (const auto ready = co_await (*engine)->ensure_ready(); !ready)
    co_return std::unexpected(api::from_engine(ready.error()));
  if (!(*engine)->calibrate()) {
    api::ApiError error = api::invalid_request(
        "calibration_off",
        "calibration is switched off; start the service without --no-calibration and without "
        "GEZEL_CALIBRATION=off");
    error.status = 409;
    co_return std::unexpected(std::move(error));
  }
  co_return co_await calibration(name->qualified());
}

void add_calibration(json::object& entry, const json::object& known) {
  if (string_or(known, "source") != "measured" || !bool_or(known, "complete", false)) return;
  json::object performance;
  if (const auto* before = object_at(entry, "performance")) performance = *before;
  for (const char* figure : {"source", "decode_tps", "prefill_tps", "at_depth", "measured_at"})
    if (const auto* value = known.if_contains(figure)) performance[figure] = *value;
  json::object settings;
  if (const auto* before = object_at(performance, "settings")) settings = *before;
  if (const auto* used = object_at(known, "settings"))
    for (const auto& member : *used) settings[member.key()] = member.value();
  performance["settings"] = std::move(settings);
  entry["performance"] = std::move(performance);
}

}  // namespace gezel::service
