// engine_llama/launch_plan.h
//
// With how many slots, how much context and how many threads a model is started: a question to `capacity` and
// `system`, answered from the file's own metadata. Blocking.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "capacity/launch.h"
#include "engine/engine.h"
#include "engine_llama/calibration_choice.h"
#include "engine_llama/draft_plan.h"
#include "engine_llama/embedded_engine.h"
#include "models/store.h"
#include "profiles/match.h"

namespace gezel::engine_llama {

// What becomes of one setting that a catalog entry has for its model's launch (launch_tuning.h).
struct TuningVerdict {
  std::string setting;  // "threads", "spec.type"
  json::value value;
  std::string ignored;  // why it does not hold; "": it does
};

struct LaunchPlan {
  int slots = 1;
  std::int64_t context = 2048;  // tokens per slot
  int threads = 1;
  capacity::KvType kv_type = capacity::KvType::f16;
  Bytes kv_bytes = 0, available_bytes = 0;
  Bytes cache_bytes = 0;  // for computed prompts beside the slots
  // For the admission: what is known of the model and was asked for. `machine` is filled in there. Absent:
  // the figures above are final.
  std::optional<capacity::LaunchInput> capacity;
  std::optional<capacity::MemoryPlan> memory;      // as admitted
  std::int64_t vocabulary = 0;                     // tokens the model knows; 0: the file does not say
  std::vector<std::string> excluded_buffer_types;  // failed the self-test on this machine
  profiles::Applied profile;                       // what holds for this model
  CalibrationFacts calibration;                    // what was measured of it here
  // Of the catalog's entry: where nobody said otherwise, and instead of the file's own.
  std::optional<bool> flash_attention;
  std::string chat_template;
  std::vector<TuningVerdict> tuning;
  DraftPlan draft;
};

// Of so many processors what one of a model's workers computes with: more threads would only wait for each
// other.
int share_of_cores(int cores, int workers);

// What is asked of every model of this engine, whether it is here or not.
capacity::LaunchSettings launch_settings(const EmbeddedOptions& options);

// Called on a pool thread, once per start.
using Planner = std::function<engine::EngineResult<LaunchPlan>(const models::InstalledModel&)>;
// Asked once per plan for what failed the engine's self-test; see self_test_record.h.
using SelfTest = std::function<Result<std::vector<std::string>>()>;
// `find`: where draft models are looked up that are named by their ids.
Planner make_planner(const EmbeddedOptions& options, SelfTest self_test, FindModel find = {});

}  // namespace gezel::engine_llama
