// engine/quarantine.h
//
// Which builds and which models are not started any more, because they keep dying (spec 30 section 4.2). A
// strike belongs to (backend, binary, model fingerprint), so that one corrupt file never disables the
// service. Kept in <home>/engines/llama-cpp/unusable.json (who is out) and strikes.json (who is close); files
// of another version count as empty. Small files, read and written whole on the event loop.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "engine/exit.h"

namespace gezel::engine {

// Where the records of a home are.
inline fs::path quarantine_folder(const fs::path& home) {
  return home / "engines" / "llama-cpp";
}

// What a launch runs. Fingerprints are "<size>:<mtimeMs>"; empty: the file could not be read, nothing is
// recorded.
struct LaunchIdentity {
  std::string backend = "cpu";
  std::string binary;  // fingerprint
  std::string model_id;
  std::string model;  // fingerprint
};

// "<size>:<mtimeMs>", or "" when the file cannot be read.
std::string fingerprint_file(const fs::path& path);
std::string fingerprint_stamp(const FileStamp& stamp);

// Who is out, and why.
struct QuarantineEntry {
  std::string backend, fingerprint;  // of the binary
  std::string model_id, model;       // "" = the build itself
  int signal = 0;
  std::string reason, at;
};

// {model (null: the build itself), backend, reason, at}, as people are shown it.
json::object quarantine_json(const QuarantineEntry& entry);

class Quarantine {
 public:
  static constexpr int kStrikes = 3;                 // crashes before ready
  static constexpr int kCrashes = 3;                 // crashes at any time ...
  static constexpr Millis kCrashWindow{600'000};     // ... within this time
  static constexpr std::size_t kMaxEntries = 1'000;  // the oldest entries give way

  Quarantine(fs::path folder, const Clock& clock) : folder_(std::move(folder)), clock_(clock) {}

  // Why this launch must not happen, or nothing.
  std::optional<std::string> reason(const LaunchIdentity& launch) const;
  // A process ended. Expected ends and lacks of memory change nothing.
  void record_exit(const LaunchIdentity& launch, const ExitSnapshot& snapshot);
  // The model became ready: its strikes before ready are forgotten.
  void record_ready(const LaunchIdentity& launch);
  std::vector<QuarantineEntry> entries() const;
  // Takes every entry out, or those of one model. Returns how many there were; an error when the files cannot
  // be written.
  Result<std::size_t> clear(std::string_view model_id = {});

 private:
  fs::path folder_;
  const Clock& clock_;
};

}  // namespace gezel::engine
