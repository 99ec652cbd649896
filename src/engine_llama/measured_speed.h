// engine_llama/measured_speed.h
//
// How fast models were measured to be on this machine, for people: what `gezel models` lists and `gezel
// doctor` compares with the memory's speed. From the records of calibration, with or without a daemon.
// Blocking.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "capacity/token_bytes.h"
#include "engine_llama/calibration_record.h"

namespace gezel::engine_llama {

struct MeasuredSpeed {
  double decode_tps = 0;   // of one conversation at `at_depth`
  double shallow_tps = 0;  // the same at its beginning
  double prefill_tps = 0;  // 0: reading prompts was not measured
  std::int64_t at_depth = 0;
  std::string kv_type, measured_at;  // ISO
  bool undisturbed = false;
};

// Of the best setting; nothing while measuring is not done.
std::optional<MeasuredSpeed> measured_speed(const CalibrationRecord& record);

// The newest of every model, by qualified id.
std::map<std::string, MeasuredSpeed> measured_speeds(const std::filesystem::path& home);

// What one token reads at that depth, from the model's file. Errors: those of gguf::read_model().
Result<capacity::TokenBytes> bytes_of_a_token(const std::filesystem::path& weights,
                                              const MeasuredSpeed& speed);

}  // namespace gezel::engine_llama
