// models/profile_files.h
//
// Which profiles there are on this machine and what they amount to for a model file: the files of
// <home>/profiles read, and the facts that src/profiles matches by. Blocking.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "catalog/catalog.h"
#include "gguf/metadata.h"
#include "models/store.h"
#include "profiles/match.h"
#include "profiles/profile.h"

namespace gezel::models {

// The shipped profiles with the user's: every *.json in <home>/profiles, in the order of their names; others
// and hidden files are passed over. What cannot be read is a problem like what is wrong. An empty home has
// none.
profiles::Profiles read_profiles(const fs::path& home);

// The file's own general.sampling.*.
prompt::SamplingOptions recommended_sampling(const gguf::Metadata& metadata);

// What the catalog's entry of an installed model says about it, its `tuning`.
struct CatalogTuning {
  std::string id;                // of the entry
  profiles::Values values;       // about answering
  catalog::LaunchTuning launch;  // about its launch
};
// Nothing: the model has no entry, or that has no tuning. Found by the id that was installed, else by the
// model's own, old names included; a "local-" id is nobody's but the user's. Reads the user's catalog; where
// that cannot be read, nothing is known.
std::optional<CatalogTuning> catalog_tuning(const catalog::Catalog& catalog, const InstalledModel& model);

// `id` without "llama-cpp:". `tuning` lies below every profile.
profiles::Applied profile_for(const profiles::Profiles& all, std::string_view id,
                              const gguf::Metadata& metadata,
                              const std::optional<CatalogTuning>& tuning = std::nullopt);

// A line in the log for each problem.
void log_problems(const profiles::Profiles& all);

}  // namespace gezel::models
