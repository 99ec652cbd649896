// models/catalog_updates.h
//
// Asks whether there is newer content for the catalog, and takes it over (spec 60 section 3.1): a pointer
// document says which, indexes are pinned by its SHA-256, everything that resolves now must resolve from
// them, and what is taken over is complete on disk before it counts. Who may say what there is, is decided by
// the address that the user configured, its TLS, and those digests. Blocking; bounded by the limits of
// `Transfers` and kMaxDocumentBytes.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "downloads/transfer.h"

namespace gezel::models {

inline constexpr std::size_t kMaxRegressions = 25;  // that are named

enum class UpdateOutcome { up_to_date, updated, incompatible, error, blocked };
std::string_view to_string(UpdateOutcome outcome);  // "up-to-date"

struct UpdateReport {
  UpdateOutcome outcome = UpdateOutcome::error;
  std::string version;                         // that was offered; "" where that is not known
  std::string message;                         // one sentence for people
  std::vector<catalog::ItemName> regressions;  // at most kMaxRegressions
};

struct UpdateQuestion {
  std::string url;  // of the pointer document
  fs::path live_folder;
  std::string bundled_version;
  // False from the moment on when nothing may be taken over any more.
  std::function<bool()> may_activate;
};

// Never fails: what goes wrong is the report's outcome `error`, and what counted before still counts.
UpdateReport update_catalog(const UpdateQuestion& question, const catalog::Catalog& catalog,
                            const downloads::Transfers& transfers,
                            const downloads::Cancellation& cancellation);

// Back to what is built in.
Result<> forget_updates(const fs::path& live_folder);

// When to ask on our own.
inline constexpr Millis kFirstUpdateCheck{15 * 60 * 1'000};       // after the start
inline constexpr Millis kUpdateCheckEvery{24 * 60 * 60 * 1'000};  // from then on
inline constexpr Millis kFreshUpdateCheck{6 * 60 * 60 * 1'000};   // one that is younger does instead

}  // namespace gezel::models
