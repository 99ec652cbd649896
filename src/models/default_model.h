// models/default_model.h
//
// Which model a request means that names none, or a bare name, and what happens when the pinned one is gone
// (spec 60 section 15). Pure.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "catalog/backend.h"

namespace gezel::models {

// Configuration: the default backend, and one pinned model for each.
struct Pins {
  std::string provider;                              // "llama-cpp"; "" = none was chosen
  std::map<std::string, std::string> default_model;  // backend -> id
};

struct InstalledChoice {
  std::string id, installed_at;  // ISO date
  Bytes size_bytes = 0;
};

// An install that runs, for the message when there is nothing else.
struct InstallProgress {
  std::string id;
  Bytes bytes_written = 0, total_bytes = 0;
  bool downloading = true;  // else it is being verified or prepared
};

// A bare name, after `normalise` (aliases): the backend whose pinned default it is. Of several, the
// platform's preferred one, then `provider`, then the order of their names. Nothing: no default has that
// name.
std::optional<catalog::QualifiedId> match_bare_name(
    std::string_view name, const Pins& pins, catalog::Backend preferred,
    const std::function<std::string(std::string_view)>& normalise);

// The one to use when the pin is absent or not installed: newest, then larger, then by id. A date that cannot
// be read counts as oldest. Nothing when none is installed.
std::optional<std::string> substitute(const std::vector<InstalledChoice>& installed);

// The model of `backend` for a request without one. Error `model_not_found` when nothing is installed; it
// says how far an install is.
Result<std::string> default_model(const Pins& pins, catalog::Backend backend,
                                  const std::vector<InstalledChoice>& installed,
                                  const std::optional<InstallProgress>& running);

// At start, with no install running: the id that the pin is to be rewritten to, nothing = leave it.
// `recommended` is what the hardware rating picks now among those installed, "" = nothing.
std::optional<std::string> reconcile_pin(const Pins& pins, catalog::Backend backend,
                                         const std::vector<InstalledChoice>& installed,
                                         std::string_view recommended);

// First run, when no provider was chosen: what to offer for download. `rated` are gated items that fit, best
// first.
inline constexpr std::string_view kFallbackModel = "gemma4-e2b-q4";
catalog::QualifiedId first_model(const std::vector<std::pair<std::string, catalog::Backend>>& rated,
                                 catalog::Backend preferred);

// Floored, and never 100 while bytes still arrive.
int percent_done(Bytes written, Bytes total);

// Milliseconds since 1970 of an ISO 8601 date or time; nothing when it is none.
std::optional<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace gezel::models
