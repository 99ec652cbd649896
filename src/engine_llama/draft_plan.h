// engine_llama/draft_plan.h
//
// Which draft model a model is started with (spec 20 section 15): what a person named, or else what the
// catalog's entry does. Blocking: it reads the header of the draft model's file.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "capacity/kv_size.h"
#include "capacity/swa.h"
#include "catalog/tuning.h"
#include "engine/engine.h"
#include "gguf/metadata.h"
#include "models/store.h"

namespace gezel::engine_llama {

// What a person says about draft models.
struct DraftSettings {
  std::optional<std::string> type;  // llamaCppSpecType; one that is named must work
  std::string model;        // --draft-model, llamaCppDraftModelPath: an absolute path or an id; "": none
  std::optional<int> most;  // llamaCppSpecDraftNMax: tokens of one draft
  bool any() const { return type || !model.empty(); }
};

// What this engine can have beside its own lookups.
inline constexpr std::string_view kDraftSimple = "draft-simple";

struct DraftPlan {
  std::vector<std::filesystem::path> files;  // absolute; empty: no draft model
  std::int64_t most = 0;                     // tokens of one draft; 0: no limit of its own
  bool required = false;                     // the load fails without it
  Bytes bytes = 0;                           // of the files
  std::optional<capacity::KvGeometry> geometry;
  std::optional<capacity::Note> note;  // why a model that was named does not draft
};

// The installed model of an id.
using FindModel = std::function<Result<models::InstalledModel>(const std::string& id)>;

// `tuning`: null without an entry of the catalog. Error `engine-launch`: a person insists on a draft model
// that cannot be had.
engine::EngineResult<DraftPlan> plan_draft(const DraftSettings& settings, const models::InstalledModel& model,
                                           const gguf::Metadata& metadata,
                                           const catalog::LaunchTuning* tuning, const FindModel& find);

}  // namespace gezel::engine_llama
