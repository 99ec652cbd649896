// capacity/draft.h
//
// Whether a draft proposes tokens ahead, and which (spec 20 section 15).
#pragma once
#include <optional>
#include <string>

#include "capacity/swa.h"

namespace gezel::capacity {

struct DraftInput {
  // The user's settings.
  std::optional<std::string> configured_type;  // llamaCppSpecType
  std::optional<std::string> configured_path;  // llamaCppDraftModelPath
  std::optional<int> configured_n_max;         // llamaCppSpecDraftNMax
  // The catalog entry's.
  std::optional<std::string> catalog_type, catalog_model_id, catalog_path;
  std::optional<int> catalog_n_max;
  // What is on disk.
  bool target_has_mtp = false;                // nextn_predict_layers > 0 in the model's header
  bool companion_has_mtp = false;             // in its companion's
  std::optional<std::string> companion_path;  // installed beside the model
  std::optional<std::string> installed_path;  // what `catalog_model_id` resolves to; absent: not installed
};

struct DraftChoice {
  std::string type;        // "" = no drafting
  std::string model_path;  // "" = the type needs none, or none is known
  std::optional<int> n_max;
  std::optional<Note> note;  // why something was left out or may fail
  bool mtp() const { return type == "draft-mtp"; }
};

// Without proof that a multi-token-prediction head is there, or with a catalog's draft model that is not
// installed, the model starts plainly. What a user forces is left as it is, with a warning.
DraftChoice choose_draft(const DraftInput& input);

}  // namespace gezel::capacity
