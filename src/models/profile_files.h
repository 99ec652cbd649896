// models/profile_files.h
//
// Which profiles there are on this machine and what they amount to for a model file: the files of
// <home>/profiles read, and the facts that src/profiles matches by. Blocking.
#pragma once
#include <string_view>

#include "base/files.h"
#include "gguf/metadata.h"
#include "profiles/match.h"
#include "profiles/profile.h"

namespace gezel::models {

// The shipped profiles with the user's: every *.json in <home>/profiles, in the order of their names; others
// and hidden files are passed over. What cannot be read is a problem like what is wrong. An empty home has
// none.
profiles::Profiles read_profiles(const fs::path& home);

// The file's own general.sampling.*.
prompt::SamplingOptions recommended_sampling(const gguf::Metadata& metadata);

// `id` without "llama-cpp:".
profiles::Applied profile_for(const profiles::Profiles& all, std::string_view id,
                              const gguf::Metadata& metadata);

// A line in the log for each problem.
void log_problems(const profiles::Profiles& all);

}  // namespace gezel::models
