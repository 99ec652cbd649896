// models/bundle.h
//
// A model bundle (spec 60 section 18): a ZIP archive with one model, for moving it between machines. What its
// manifests say, and whether everything in the archive agrees with them.
//
//   manifest.json              what is in it: id, name, engine, licence, every other file with size and
//   SHA-256 model/<path>               the files of the model manifests/installed.json   the install manifest
//   of where it comes from (models/manifest.h) manifests/catalog.json     what the catalog said of it there
//   catalog/chat-models/...    files of a catalog; checked, and not used
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "base/result.h"
#include "catalog/backend.h"
#include "catalog/license.h"
#include "models/plan.h"
#include "models/zip.h"

namespace gezel::models {

inline constexpr std::string_view kBundleExtension = ".gezmodel";
inline constexpr Bytes kMaxBundleManifest = 4 * kMiB;
inline constexpr Bytes kMaxSafetensorsHeader = 16 * kMiB;

enum class BundleRole { model, installed_manifest, catalog_manifest, catalog_file };
std::string_view to_string(BundleRole role);

struct BundleFile {
  std::string path;  // of its entry
  Bytes size_bytes = 0;
  std::string sha256;
  BundleRole role = BundleRole::model;
};

struct BundleManifest {
  std::string id, name, created_at, created_by, catalog_version;
  catalog::Backend engine = catalog::Backend::llama_cpp;
  Bytes approx_size_bytes = 0;  // of the model's files together
  std::optional<catalog::License> license;
  std::vector<BundleFile> files;
};
json::object bundle_manifest_json(const BundleManifest& manifest);
// Error `invalid_bundle` names the member.
Result<BundleManifest> parse_bundle_manifest(std::string_view text);

struct Bundle {
  BundleManifest manifest;
  std::string manifest_sha256;
  std::vector<zip::Entry> entries;  // of the manifest's files, in their order
  json::object installed, catalog;
};

// Reads the directory and the manifests, and checks all that can be checked without reading the model: paths,
// roles, sizes, extensions, ids, and that what is declared is there and nothing else is. Errors
// `invalid_bundle` and those of zip::read_index().
Result<Bundle> open_bundle(const zip::Source& source);

// Reads every file: digests, and whether the model's files are what its engine reads. `progress` gets the
// bytes so far and may return false to cancel. Errors `hash_mismatch`, `invalid_bundle`, `cancelled`.
Result<> verify_bundle(const zip::Source& source, const Bundle& bundle,
                       const std::function<bool(Bytes)>& progress = {});

// What a person should know before it is imported; finished sentences.
std::vector<std::string> bundle_warnings(const Bundle& bundle);

// The install of its model; the files come from "https://bundle.invalid/<path>", which models/bundle_client.h
// answers. Errors: those of check_plan(), `unsupported_backend`.
Result<InstallPlan> plan_bundle(const Bundle& bundle);

}  // namespace gezel::models
