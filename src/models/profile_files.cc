#include "models/profile_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log.h"
#include "models/ids.h"
#include "profiles/catalog_tuning.h"

namespace gezel::models {
namespace {

// Files of a folder by name, at most one more than are read.
std::vector<fs::path> json_files(const fs::path& folder, std::vector<profiles::Problem>& problems) {
  std::vector<fs::path> out;
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  if (failed == std::errc::no_such_file_or_directory) return out;
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    const auto& path = entries->path();
    if (path.extension() == ".json" && !path.filename().string().starts_with('.')) out.push_back(path);
  }
  if (failed) problems.push_back({folder.filename().string(), "", "cannot be read: " + failed.message()});
  std::ranges::sort(out);
  if (out.size() > profiles::kMaxFiles) {
    problems.push_back({out[profiles::kMaxFiles].filename().string(), "",
                        fmt::format("is one of {} files; only the first {} by name are read", out.size(),
                                    profiles::kMaxFiles)});
    out.resize(profiles::kMaxFiles);
  }
  return out;
}

struct SamplingKey {
  std::string_view key;  // after "general.sampling."
  std::optional<float> prompt::SamplingOptions::* number = nullptr;
  std::optional<int> prompt::SamplingOptions::* integer = nullptr;
};
using Options = prompt::SamplingOptions;
constexpr std::array kSamplingKeys{
    SamplingKey{.key = "temp", .number = &Options::temperature},
    SamplingKey{.key = "top_k", .integer = &Options::top_k},
    SamplingKey{.key = "top_p", .number = &Options::top_p},
    SamplingKey{.key = "min_p", .number = &Options::min_p},
    SamplingKey{.key = "xtc_probability", .number = &Options::xtc_probability},
    SamplingKey{.key = "xtc_threshold", .number = &Options::xtc_threshold},
    SamplingKey{.key = "penalty_last_n", .integer = &Options::repeat_last_n},
    SamplingKey{.key = "penalty_repeat", .number = &Options::repeat_penalty},
    SamplingKey{.key = "mirostat", .integer = &Options::mirostat},
    SamplingKey{.key = "mirostat_tau", .number = &Options::mirostat_tau},
    SamplingKey{.key = "mirostat_eta", .number = &Options::mirostat_eta},
};

}  // namespace

profiles::Profiles read_profiles(const fs::path& home) {
  std::vector<profiles::File> files;
  std::vector<profiles::Problem> problems;
  if (!home.empty()) {
    for (const auto& path : json_files(home / "profiles", problems)) {
      const auto name = path.filename().string();
      // Opening a pipe would wait for its other end.
      std::error_code failed;
      if (!fs::is_regular_file(path, failed)) {
        problems.push_back({name, "", failed ? "cannot be read: " + failed.message() : "is no file"});
        continue;
      }
      auto text = read_file(path, profiles::kMaxFileBytes);
      if (text) {
        files.push_back({name, std::move(*text)});
      } else {
        problems.push_back(
            {name, "",
             text.error().kind == ErrorKind::too_large
                 ? fmt::format("is too large; at most {} bytes are read", profiles::kMaxFileBytes)
                 : "cannot be read: " + text.error().message});
      }
    }
  }
  auto out = profiles::assemble(profiles::shipped_files(), files);
  out.problems.insert(out.problems.begin(), std::make_move_iterator(problems.begin()),
                      std::make_move_iterator(problems.end()));
  return out;
}

prompt::SamplingOptions recommended_sampling(const gguf::Metadata& metadata) {
  prompt::SamplingOptions out;
  for (const auto& row : kSamplingKeys) {
    const auto found = metadata.sampling.find(std::string(row.key));
    // A file is not trusted: what no sampler could mean is not taken over.
    if (found == metadata.sampling.end() || !(std::abs(found->second) <= 1e6)) continue;
    if (row.number != nullptr) out.*row.number = static_cast<float>(found->second);
    if (row.integer != nullptr) out.*row.integer = static_cast<int>(found->second);
  }
  return out;
}

std::optional<CatalogTuning> catalog_tuning(const catalog::Catalog& catalog, const InstalledModel& model) {
  const std::string& named = model.catalog_id.empty() ? model.id : model.catalog_id;
  if (named.starts_with(kLocalPrefix)) return std::nullopt;
  const auto id = catalog.normalise(named);
  if (!id) return std::nullopt;
  const auto entry = catalog.get(catalog::Kind::chat_model, *id);
  const auto* tuning = entry ? object_at(entry->item->members, "tuning") : nullptr;
  if (tuning == nullptr) return std::nullopt;
  std::vector<profiles::Problem> problems;
  CatalogTuning out{*id, profiles::read_catalog_tuning(*tuning, *id, problems), {}};
  if (const auto& chat = entry->item->chat; chat && chat->tuning) out.launch = chat->tuning->launch;
  for (const auto& problem : problems)
    log_warn("a value of a catalog entry is not used", {{"entry", *id}, {"reason", problem.message}});
  return out;
}

profiles::Applied profile_for(const profiles::Profiles& all, std::string_view id,
                              const gguf::Metadata& metadata, const std::optional<CatalogTuning>& tuning) {
  auto out =
      profiles::apply(all,
                      {.id = id,
                       .architecture = metadata.architecture,
                       .chat_template = metadata.chat_template ? std::string_view(*metadata.chat_template)
                                                               : std::string_view()},
                      recommended_sampling(metadata), tuning ? &tuning->values : nullptr);
  if (tuning) out.catalog = tuning->id;
  return out;
}

void log_problems(const profiles::Profiles& all) {
  for (const auto& problem : all.problems)
    log_warn("a profile is not used", {{"file", problem.file}, {"reason", problem.message}});
}

}  // namespace gezel::models
