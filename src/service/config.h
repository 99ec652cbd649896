// service/config.h
//
// <home>/config.json: what the user settled for good, and what the service settles for them (spec 60
// sections 3.1, 15 and 17.3). Blocking.
//
//   {"provider": "llama-cpp", "defaultModel": {"llama-cpp": "<id>"}, "firstRunCompleted": true,
//    "modelDirs": ["/absolute/folder"], "catalogUpdates": {"enabled": false, "url": "https://..."},
//    "localEngineReplicas": {"llama-cpp:<id>": 2}, "localEngineReplicasMax": 4,
//    "cacheBudgetMb": {"embedded": 4096}, "embeddedDiskCache": true, "embeddedDiskCacheBudgetMb": 8192,
//    "llamaCppSpecType": "draft-simple", "llamaCppDraftModelPath": "/absolute/file", "llamaCppSpecDraftNMax":
//    8}
//
// Every member may be absent, members nobody knows are kept. One that is wrong is not used, and the others
// count.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/replicas.h"
#include "engine_llama/draft_plan.h"
#include "engine_llama/prompt_cache_settings.h"
#include "models/default_model.h"

namespace gezel::service {

inline constexpr std::size_t kMaxModelDirs = 64;

struct CatalogUpdateSettings {
  bool enabled = false;
  std::string url;  // of the pointer document
  bool operator==(const CatalogUpdateSettings&) const = default;
};

// In how many workers models may run (spec 30 section 7.6).
struct ReplicaSettings {
  std::map<std::string, int, std::less<>> wanted;  // by qualified id, 0 to engine::kMostReplicas
  int most = engine::kUsualMostReplicas;           // of any model
  // At least 1.
  int count(std::string_view qualified_id) const;
};

struct Config {
  models::Pins pins;
  bool first_run_completed = false;
  std::vector<std::filesystem::path> model_dirs;  // absolute
  CatalogUpdateSettings catalog_updates;
  ReplicaSettings replicas;
  engine_llama::PromptCacheSettings prompt_cache;
  engine_llama::DraftSettings draft;
};

struct ConfigProblem {
  std::string pointer;  // JSON pointer; "" = the whole file
  std::string message;  // "/modelDirs/1 is \"models\"; it must be an absolute path"
};

struct ConfigFile {
  Config config;
  std::vector<ConfigProblem> problems;
};

std::filesystem::path config_path(const std::filesystem::path& home);

// Pure: the file's text.
ConfigFile parse_config(std::string_view text);
// No file is an empty configuration; one that cannot be read is a problem.
ConfigFile read_config(const std::filesystem::path& home);

// Changes members of the file and keeps the others. Error `bad_config` where it is no JSON object, which is
// then left as it is.
Result<> change_config(const std::filesystem::path& home, const std::function<void(json::object&)>& change);

// "a:b" -> {"a", "b"}, as GEZEL_MODEL_DIRS is written. Errors `bad_model_dir`: a path that is not absolute,
// or too many; `from` names the setting.
Result<std::vector<std::filesystem::path>> read_model_dirs(std::string_view text, std::string_view from);

// The outside's word on model folders: flags and environment first, each folder once.
std::vector<std::filesystem::path> join_model_dirs(std::vector<std::filesystem::path> first,
                                                   const std::vector<std::filesystem::path>& then);

}  // namespace gezel::service
