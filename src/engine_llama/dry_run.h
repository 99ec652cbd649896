// engine_llama/dry_run.h
//
// What a load would occupy, asked of a worker that reads the file's metadata and allocates nothing (spec 20
// section 7). Answers are kept on disk: they change only with the file, the shape and the engine.
#pragma once
#include <filesystem>
#include <string>

#include "capacity/memory_plan.h"
#include "engine_llama/embedded_core.h"

namespace gezel::engine_llama {

inline constexpr Millis kDryRunTime{30'000};
// Shapes of one file that are remembered; the oldest goes.
inline constexpr std::size_t kMostShapes = 32;
// Beside what a dry run holds: chat template, vocabulary for constraints, prompts and batches in work, and
// what drafts remember. Measured, see bench/memory.py.
inline constexpr Bytes kProcessExtra = 6 * kMiB;

// Starts a worker for `load` and returns its figures. Errors: whatever the worker refuses the file for,
// `engine-startup-timeout`, `engine-crashed`. The worker is gone, or on its way, when it returns.
asio::awaitable<engine::EngineResult<capacity::DryRun>> ask_worker(const EmbeddedParts& parts,
                                                                   std::filesystem::path program,
                                                                   protocol::Load load);

// The figures kept for one file.
class DryRunRecord {
 public:
  // `file` need not exist; a damaged one counts as empty.
  explicit DryRunRecord(std::filesystem::path file) : file_(std::move(file)) {}
  // Blocking. `engine` names the build that measured.
  std::optional<capacity::DryRun> find(const std::string& engine, const protocol::Load& load) const;
  Result<> keep(const std::string& engine, const protocol::Load& load, const capacity::DryRun& run) const;

 private:
  std::filesystem::path file_;
};

}  // namespace gezel::engine_llama
