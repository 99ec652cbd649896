// models/plan.h
//
// What an install will put on disk, and from where (spec 60 section 10.1): catalog facts to a list of files.
// Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "base/result.h"
#include "catalog/backend.h"
#include "catalog/resolve.h"

namespace gezel::models {

inline constexpr std::string_view kHub = "https://huggingface.co";

// Where repositories are, in the order of trying.
struct Hub {
  std::string base{kHub};            // HF_ENDPOINT replaces it; also the only host that sees the token
  std::vector<std::string> mirrors;  // base addresses with the same layout
};

inline constexpr std::string_view kFromUrl = "url";

enum class FileRole { weights, projector, draft, part, auxiliary };  // part: one of an MLX folder

struct PlannedFile {
  std::string name;               // on disk, a contained path below the model's folder
  std::vector<std::string> urls;  // in the order of trying
  // Of whoever asked for the install (models/mirrors.h): they come after the first of `urls`.
  std::vector<std::string> mirrors = {};
  std::string sha256;    // "" = hashed and recorded, not checked
  Bytes size_bytes = 0;  // 0 = unknown
  FileRole role = FileRole::weights;
  std::string auxiliary_role;  // vae, clip_l, ...
};

struct InstallPlan {
  catalog::Backend backend = catalog::Backend::llama_cpp;
  std::string id, name;
  std::string source;  // catalog | huggingface | url (kFromUrl)
  std::string catalog_id, catalog_version, repository, revision, quantization;
  std::string repository_file;  // of hub models: the path of the first file in the repository
  std::string address;          // of models from any address (models/url_source.h): where the first file is
  std::int64_t context_window = 0;
  std::vector<PlannedFile> files;
  std::string chat_template;  // of MLX models whose files bring none
  json::object media;         // members of an image model's or LoRA's manifest

  Bytes total_bytes() const;
};

struct PlanOptions {
  Hub hub;
  bool include_projector = false;
};

// Errors: `no_source_for_backend`; `invalid-model-id`, `catalog_invalid` for names that must not reach the
// disk, whatever the catalog's own reader let through.
Result<InstallPlan> plan_install(const catalog::Resolved& resolved, catalog::Backend backend,
                                 const PlanOptions& options);

// <base>/<repository>/resolve/<revision or main>/<path>?download=true, percent-encoded.
std::string repository_url(std::string_view base, std::string_view repository, std::string_view revision,
                           std::string_view path);

// The second of two checks of every name (the first is the grammar that its reader applies): ids and names of
// the plan are safe, unique without regard to case, and none is the manifest or a leftover's.
Result<> check_plan(const InstallPlan& plan);

}  // namespace gezel::models
