// models/mirrors.h
//
// Further hosts for the files of an install, named by whoever asks for it (spec 10 section 9.1). Pure.
#pragma once
#include <string>
#include <vector>

#include "models/plan.h"

namespace gezel::models {

inline constexpr std::size_t kMostMirrors = 16, kMaxMirrorBytes = 2'048;

// Adds the base addresses, in their order, to every file of the plan: of a repository's file its path there
// (<mirror>/<org>/<name>/resolve/...), of any other address its last part (<mirror>/<file>). Error
// `invalid_mirrors` for more than kMostMirrors, for what is no base address, and for plans with a file that
// has no digest: nothing else tells that a mirror has the same one.
Result<> add_mirrors(InstallPlan& plan, const std::vector<std::string>& mirrors);

// An address of a file, in the order of trying.
struct FileSource {
  std::string url;
  bool public_only = false;  // as downloads::FileRequest has it: somebody else chose the host
};
// The plan's own first address, then mirrors, then the others of the plan.
std::vector<FileSource> sources_of(const InstallPlan& plan, const PlannedFile& file);

}  // namespace gezel::models
