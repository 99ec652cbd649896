// models/owner.h
//
// Whose an installed model is: one that came from elsewhere is not replaced by another that only happens to
// get the same id.
#pragma once
#include "base/result.h"
#include "models/plan.h"
#include "models/store.h"

namespace gezel::models {

// Whether a model came from the repository and file that the plan is for, perhaps in another revision.
bool is_same_source(const InstalledModel& model, const InstallPlan& plan);
// Whether it also has the plan's files, by their digests; by the revision where the plan has none.
bool has_files_of(const InstalledModel& model, const InstallPlan& plan);

// Whether the plan may replace what is installed under its id. Error `model_exists`.
Result<> check_owner(const InstalledModel& installed, const InstallPlan& plan);
// The same where the manifest is no complete one; without one nothing is installed. One that does not say
// whose it is may be an import's.
Result<> check_odd_manifest(const fs::path& manifest, const InstallPlan& plan);

}  // namespace gezel::models
