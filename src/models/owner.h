// models/owner.h
//
// Whose an installed model is: one that came from elsewhere is not replaced by another that only happens to
// get the same id.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "models/plan.h"
#include "models/store.h"

namespace gezel::models {

// What tells one model of the network from another: "<repository>/<path of the first file>", or the address
// of the file; "" for a model of the catalog, whose id does that.
std::string source_key(const InstallPlan& plan);
// local-<slug>-<eight digits of the source_key()'s digest>
std::string distinct_id(const InstallPlan& plan);
// The id that the plan's model has or can get: the plan's own, or the distinct one when that is another
// model's. `installed` is nullptr for an id that nobody has.
std::string free_id(const InstallPlan& plan,
                    const std::function<const InstalledModel*(std::string_view)>& installed);

// Whether a model came from the repository and file that the plan is for, perhaps in another revision, or
// from its address.
bool is_same_source(const InstalledModel& model, const InstallPlan& plan);
// Whether it also has the plan's files, by their digests; where the plan has none, by the revision, or by the
// size for an address.
bool has_files_of(const InstalledModel& model, const InstallPlan& plan);

// Whether the plan may replace what is installed under its id. Error `model_exists`.
Result<> check_owner(const InstalledModel& installed, const InstallPlan& plan);
// The same where the manifest is no complete one; without one nothing is installed. One that does not say
// whose it is may be an import's.
Result<> check_odd_manifest(const fs::path& manifest, const InstallPlan& plan);

}  // namespace gezel::models
