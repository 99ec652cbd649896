// models/staging.h
//
// The folder <root>/.incoming/<id> that an install fills: what in it can still be used when the install is
// tried again, perhaps with another version of the catalog, and what is too old to keep (spec 60 section 12).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "models/plan.h"

namespace gezel::models {

inline constexpr std::string_view kIncoming = ".incoming";
inline constexpr std::string_view kPartial = ".partial";
inline constexpr std::string_view kPlanName = "plan.json";
// The plan of a folder that is complete: hidden, so that it is no part of the model when the folder becomes
// one.
inline constexpr std::string_view kSealedPlanName = ".plan.json";
inline constexpr Millis kStaleAfter{std::int64_t{7} * 24 * 60 * 60 * 1000};

struct FolderSize {
  Bytes payload_bytes = 0;     // everything but manifest and plan
  std::int64_t newest_ms = 0;  // newest write, milliseconds since 1970
  bool has_manifest = false, has_partial = false;
};
// Sizes only; links are not followed, and beyond a bound of entries nothing is counted.
FolderSize measure_folder(const fs::path& folder);

// Whether the clean-up at start may take the folder away: no manifest, a partial file, and the newest write
// longer ago than kStaleAfter. A folder that somebody made by hand has no partial file and stays.
bool is_stale(const FolderSize& folder, WallTime now);

// A file of a staging folder that is complete and was compared with its pin.
struct VerifiedFile {
  std::string sha256;
  FileStamp stamp;  // then; another one now means it must be read again
};

// plan.json: for what the folder is being filled, and what is done.
class StagingPlan {
 public:
  // Creates the folder where it is missing and removes everything from it that the new plan cannot use: files
  // that it does not name, those whose pin changed, links, an old manifest. `root` is the store's, `home` its
  // home.
  static Result<StagingPlan> prepare(const fs::path& home, const fs::path& root, const InstallPlan& plan);

  const fs::path& folder() const { return folder_; }
  fs::path file(const PlannedFile& file) const { return folder_ / file.name; }
  fs::path partial(const PlannedFile& file) const { return folder_ / (file.name + std::string(kPartial)); }
  Bytes partial_bytes(const PlannedFile& file) const;

  // The digest of a file that is here and was verified; nothing when it must be fetched or read.
  std::optional<std::string> verified(const PlannedFile& file) const;
  // Gives the partial file its name and records its digest.
  Result<> finish(const PlannedFile& file, const std::string& sha256);
  // Records one that came here by itself (reused).
  Result<> record(const PlannedFile& file, const std::string& sha256);
  void drop(const PlannedFile& file) const;
  // Everything is there, manifest included. The plan stays known until the folder has its place, in case it
  // never gets there.
  Result<> seal() const;

 private:
  Result<> save() const;

  fs::path folder_;
  json::object members_;
  std::map<std::string, VerifiedFile> verified_;
};

}  // namespace gezel::models
