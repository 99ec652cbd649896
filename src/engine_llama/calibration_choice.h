// engine_llama/calibration_choice.h
//
// What calibration says about a load: with which settings, and what is known of the times of its steps. What
// a person set counts more (spec 35 section 2.7). Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/calibration.h"
#include "engine_llama/calibration_record.h"
#include "protocol/measure.h"

namespace gezel::engine_llama {

struct CalibrationFacts {
  CalibrationKey key;  // without a model: calibration is switched off
  std::optional<CalibrationRecord> record;
  int physical_cores = 0;  // 0: unknown
  // Of the user.
  std::optional<bool> flash_attention;
  std::optional<int> threads;

  bool on() const { return !key.model.empty(); }
};

// The best measured settings that the user's own allow, for a cache of this type; nothing: the defaults of
// spec 35 section 2.6.
std::optional<costmodel::Setting> chosen_setting(const CalibrationFacts& facts, std::string_view kv_type);

// The measured steps with exactly these settings.
std::vector<protocol::KnownStep> known_steps(const CalibrationFacts& facts,
                                             const costmodel::Setting& setting);

}  // namespace gezel::engine_llama
