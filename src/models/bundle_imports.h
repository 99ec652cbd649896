// models/bundle_imports.h
//
// Import of a bundle in two steps (spec 60 section 18): it is scanned, somebody looks at what was found, and
// confirms. Until then nothing touches the store: what is known lies in
// <home>/.transactions/gezmodel-imports/ <import id>/, an uploaded archive too, for a day at most. An archive
// of this machine stays where it is.
//
// Everything is on the disk, so that a restart in between loses nothing; a step that was cut off leaves a
// folder without a review, which the next start removes. Blocking. One import is worked on by one caller at a
// time.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "models/bundle.h"
#include "models/installer.h"
#include "models/store.h"

namespace gezel::models {

inline constexpr Millis kKeepReview{24 * 60 * 60 * 1000};
inline constexpr std::size_t kMaxReviews = 32;

// What a person decides about.
struct BundleReview {
  std::string import_id;
  BundleManifest manifest;
  std::vector<std::string> warnings;
  bool replaces = false;  // a model with this id is there
  std::int64_t expires_at_ms = 0;
};

enum class ScanPhase { inspecting, verifying, validating };
using ScanProgress = std::function<bool(ScanPhase phase, Bytes done, Bytes total)>;  // false cancels

// 36 characters as new_uuid() makes them, lower case.
bool is_import_id(std::string_view text);

class BundleImports {
 public:
  BundleImports(fs::path home, const Clock& clock, Entropy& entropy);

  // Makes the folder of an import, and returns where its archive is to be written. Errors:
  // `invalid_import_id`, `import_exists`, `too_many_imports`.
  Result<fs::path> begin(const std::string& import_id) const;
  // Looks at the archive of begin(), or at `path`, which is absolute. An import that fails is discarded.
  // Errors: those of open_bundle(), verify_bundle() and plan_bundle(); `unreadable`, `cancelled`.
  Result<BundleReview> scan(const std::string& import_id, const fs::path& path, const ModelStore& store,
                            const ScanProgress& progress = {}) const;
  // Puts the model into the store; the same checks, on every byte again. Then the import is gone. Errors:
  // `import_not_found`, `bundle_changed`, `model_exists` unless `replace`, and those of install().
  Result<InstalledModel> confirm(const std::string& import_id, bool replace, ModelStore& store,
                                 InstallObserver& observer, const downloads::Cancellation& cancellation,
                                 const StepHook& at_step = {}) const;
  Result<> discard(const std::string& import_id) const;  // error `import_not_found`
  // At start and before each import: what was cut off, or is older than a day. `busy` are left alone.
  void remove_stale(const std::vector<std::string>& busy) const;

  const fs::path& root() const { return root_; }

 private:
  fs::path folder(const std::string& import_id) const { return root_ / import_id; }
  Result<BundleReview> look(const std::string& import_id, const fs::path& archive, const ModelStore& store,
                            const ScanProgress& progress) const;

  fs::path home_, root_;
  const Clock& clock_;
  Entropy& entropy_;
};

json::object review_json(const BundleReview& review);

}  // namespace gezel::models
