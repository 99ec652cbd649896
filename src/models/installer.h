// models/installer.h
//
// One install from plan to published model (spec 60 sections 10 and 11): room, reuse, transfers,
// verification, manifest, publish. Blocking, on a thread that may wait for the network and the disk. Nothing
// that is installed changes before the last step; whatever stops it before that leaves staging that the next
// try goes on from.
#pragma once
#include <expected>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "downloads/transfer.h"
#include "models/owner.h"
#include "models/plan.h"
#include "models/store.h"

namespace gezel::models {

struct InstallProgressReport {
  Bytes bytes_written = 0, total_bytes = 0;  // of the whole model
  bool file_done = false;                    // at the end of a file: not to be held back
};

// Told on the installing thread.
class InstallObserver {
 public:
  virtual ~InstallObserver() = default;
  virtual void progress(const InstallProgressReport& report) = 0;
  virtual void retrying(const std::string& file, const downloads::Retry& retry) = 0;
  virtual void verifying(const std::string& file) = 0;
  virtual void extracting_metadata() = 0;
};

struct Mismatch {
  std::string file, expected, actual;
};
struct InstallError {
  Error error;
  std::optional<Mismatch> mismatch;
};
struct Installed {
  std::string warning;  // "" = none
};

struct InstallOptions {
  bool skip_sha = false;  // a person saw a mismatch and wants the file all the same
  downloads::AccessToken token;
  bool replace = false;  // somebody wants what is there under the id replaced, whoever it came from
  // Told the name of each step once it is done: "reserved", "staged", "room", "reused <file>", "fetched
  // <file>", "verified <file>", "read header", "manifest", "backup", "published", "synced", "set aside",
  // "cleaned".
  StepHook at_step;
};

// How an install ends that was cancelled: `cancelled`.
Error cancelled_install();

// Error codes: those of check_plan and Transfers, insufficient_disk, hash_mismatch, install_in_progress,
// model_exists, unsupported_backend, and those of the GGUF reader for a file that is no model.
std::expected<Installed, InstallError> install(ModelStore& store, const downloads::Transfers& transfers,
                                               const Clock& clock, const InstallPlan& plan,
                                               const InstallOptions& options, InstallObserver& observer,
                                               const downloads::Cancellation& cancellation);

}  // namespace gezel::models
