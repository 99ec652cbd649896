// service/model_entry.h
//
// An installed model as JSON: in GET /v1/models, in GET /v1/models/{id} (spec 10 section 8) and after an
// import. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/engine.h"
#include "models/store.h"

namespace gezel::service {

// What a running engine measured (spec 35 section 3); kept after it was unloaded.
struct Performance {
  double decode_tps = 0, prefill_tps = 0;
  std::string measured_at;  // ISO
  bool flash_attention = false;
  std::string kv_type;
  int slots = 0;
  std::int64_t context = 0;
};
// Nothing while the engine has no figures.
std::optional<Performance> performance_of(const engine::Status& status, WallTime now);

// What is known of a model beyond its manifest.
struct ModelFacts {
  std::optional<std::int64_t> context_wanted;   // --ctx
  std::optional<std::int64_t> context_planned;  // that a load would get, as last planned
  bool below_floor = false;                     // the running engine's, or the planned one
  int slots = 0;                                // the same; 0 = unknown
  std::int64_t context_granted = 0;             // tokens per slot of the running engine, 0 = not running
  std::string default_template;  // "default:<name>" once an engine found that the file has none
  std::optional<Performance> performance;
  std::optional<json::object>
      profile;  // what holds for it (profiles/match.h); of the running engine where one runs
};

// The window a request gets: the granted one, else the one that will be asked for; 0 = unknown.
std::int64_t context_window(const models::InstalledModel& model, const ModelFacts& facts);

json::object list_entry(const models::InstalledModel& model, const ModelFacts& facts);
json::object full_entry(const models::InstalledModel& model, const ModelFacts& facts);
// Puts what calibration measured (service_calibration.cc) in the place of live figures.
void add_calibration(json::object& entry, const json::object& known);
json::object import_entry(const models::InstalledModel& model);

// Seconds since the epoch of "2026-11-29T23:03:29.123Z"; 0 when it is no such text.
std::int64_t unix_seconds_of(std::string_view iso);

}  // namespace gezel::service
