// engine_llama/calibration_record.h
//
// What was measured of a model on this machine, kept in <home>/calibration/<key>.json (spec 35 section 2.1).
// Blocking; called on pool threads.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "costmodel/calibration.h"

namespace gezel::engine_llama {

// What a measurement holds for. Whatever changes here makes another record.
struct CalibrationKey {
  std::string model;       // fingerprint of its files
  std::string engine;      // of the engine's program
  std::string cpu;         // the processor's name
  int cores = 0;           // that a worker may use: of affinity and quota its share
  std::string backend;     // "cpu"
  int workers = 1;         // of the model, which share the memory's bandwidth too
  std::string id() const;  // the file's name without extension
};

struct CalibrationRecord {
  std::string model_id;     // for people
  std::string measured_at;  // ISO
  CalibrationKey key;
  bool complete = false;  // false: it is gone on from when the engine is idle again
  bool clean = false;     // nothing else used the processors
  std::vector<costmodel::Candidate> candidates;
  costmodel::Mix mix;  // what the model was mostly asked
};

// Records that are kept; the oldest goes.
inline constexpr std::size_t kMostRecords = 256;

class CalibrationStore {
 public:
  explicit CalibrationStore(const std::filesystem::path& home) : folder_(home / "calibration") {}
  // Nothing: there is none, or it cannot be used: damaged, of another version, with a time that is no number.
  // The log says so.
  std::optional<CalibrationRecord> find(const CalibrationKey& key) const;
  Result<> keep(const CalibrationRecord& record) const;
  // Every record that can be read, by model.
  std::vector<CalibrationRecord> all() const;

 private:
  std::filesystem::path folder_;
};

// The figures of one record for people: {source, decode_tps, prefill_tps, at_depth, measured_at, complete,
// candidates: [...]}. `chosen`: of `kv_type`.
json::object describe_calibration(const CalibrationRecord& record, std::string_view kv_type);

}  // namespace gezel::engine_llama
