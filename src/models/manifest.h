// models/manifest.h
//
// The install manifest of spec 60 section 8: manifest.json beside a model's files, whose presence is what
// makes the model installed. Members this version does not know are kept when it is written again.
//
// Beyond section 8 it holds: `fileStamps` {file: {sizeBytes, mtimeNs, inode}} taken at import and renewed
// when the files are hashed, so that an unchanged file is recognised without reading it; `importedFrom`, the
// path an import was given, and `importedStamps` of what was there; `defaultChatTemplate` for files without a
// template; `huggingfaceFile`, the path of a hub model's first file in its repository; `downloadUrl`, where
// the file of a model from any address was; and `refused` {file, expected, actual, at} after a file was found
// to differ from its recorded digest.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "models/store.h"

namespace gezel::models {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr Bytes kMaxManifestBytes = 4 * kMiB;

// A file that no longer has its digest; the model is refused until it is imported again.
struct Refusal {
  std::string file;
  std::string expected, actual;
};

struct Manifest {
  json::object members;  // as stored
  InstalledModel model;
  std::string imported_from;
  std::optional<Refusal> refused;
};

// `folder` is the model's own; its name must be the manifest's id. Checks members and paths, not the files.
// Errors: `model-invalid`, the message says which member is wrong.
Result<Manifest> parse_manifest(std::string_view text, const fs::path& folder);

// What an import writes.
struct ManifestDraft {
  std::string id, name, installed_at, source, imported_from;
  bool external = false;            // files are named by absolute path and stay where they are
  std::vector<fs::path> files;      // where they will be
  std::vector<FileStamp> stamps;    // one per file
  std::vector<std::string> sha256;  // one per file, or empty when not hashed yet
  std::string architecture, quantization;
  std::int64_t context_window = 0;
  bool chat_template_present = false;
  std::string default_template;
  fs::path projector;  // empty: none
  // Of installs. The files are in the order parts, draft, auxiliary, projector.
  fs::path draft;
  std::vector<std::pair<std::string, fs::path>> auxiliary;  // role and file
  std::string catalog_id, catalog_version, repository, revision, repository_file, address;
  json::object media;  // further members
  bool proven = true;  // false: hashes were not compared, so no fingerprint
};
json::object draft_manifest(const ManifestDraft& draft);

// Sets what hashing found: digests of every file (in the order of `files`), their stamps and the payload
// fingerprint.
void record_digests(json::object& members, bool external, const std::vector<fs::path>& files,
                    const std::vector<FileStamp>& stamps, const std::vector<std::string>& sha256);
void record_refusal(json::object& members, const Refusal& refusal, std::string_view at);

// How a manifest names a file: base name inside the model's folder, absolute path outside.
std::string manifest_name(const fs::path& file, bool external);

// SHA-256 over the canonical JSON of {"chatTemplate" when there is one, "files": sorted [name, sha256],
// "repo"} (spec 60 section 14).
std::string payload_fingerprint(std::string_view repo,
                                const std::vector<std::pair<std::string, std::string>>& files,
                                std::string_view chat_template = {});

}  // namespace gezel::models
