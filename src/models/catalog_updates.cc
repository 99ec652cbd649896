#include "models/catalog_updates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ids.h"
#include "base/json.h"
#include "downloads/url.h"
#include "models/disk.h"

namespace gezel::models {
namespace {

using catalog::Kind;

constexpr std::string_view kStaging = ".incoming";
constexpr std::string_view kGone = "file_not_on_host";

// What was fetched, complete and checked.
struct Candidate {
  std::map<Kind, std::string> texts;
  std::vector<catalog::ItemPtr> items;
};

class Update {
 public:
  Update(const UpdateQuestion& question, const catalog::Catalog& catalog,
         const downloads::Transfers& transfers, const downloads::Cancellation& cancellation)
      : question_(question),
        catalog_(catalog),
        transfers_(transfers),
        cancellation_(cancellation),
        now_(catalog.content()) {}

  UpdateReport run() {
    auto pointer = fetch_pointer();
    if (!pointer) return failed(pointer.error());
    if (!is_newer(*pointer)) return report_;
    auto candidate = fetch(*pointer);
    if (!candidate && candidate.error().code == kGone) {
      // What it pointed to was replaced: it says by now what there is instead.
      pointer = fetch_pointer();
      if (!pointer) return failed(pointer.error());
      if (!is_newer(*pointer)) return report_;
      candidate = fetch(*pointer);
    }
    if (!candidate) return failed(candidate.error());
    report_.version = pointer->version.text();
    auto regressions = catalog::find_regressions(now_.items, candidate->items, catalog_.service());
    if (!regressions.empty()) {
      report_.outcome = UpdateOutcome::incompatible;
      report_.message = fmt::format("version {} lacks {} of the models that are known now, such as {}",
                                    report_.version, regressions.size(), regressions.front().id);
      if (regressions.size() > kMaxRegressions) regressions.resize(kMaxRegressions);
      report_.regressions = std::move(regressions);
      return report_;
    }
    if (auto activated = activate(*pointer, *candidate); !activated) return failed(activated.error());
    return report_;
  }

 private:
  UpdateReport failed(const Error& error) {
    report_.outcome = UpdateOutcome::error;
    report_.message = error.message;
    return report_;
  }

  Result<catalog::Pointer> fetch_pointer() {
    GEZEL_TRY(const std::string text,
              transfers_.fetch_text(question_.url, catalog::kMaxDocumentBytes, {}, cancellation_));
    GEZEL_TRY(catalog::Pointer pointer, catalog::parse_pointer(text));
    GEZEL_TRY(const auto from, downloads::parse_source(question_.url));
    const auto base = downloads::parse_source(pointer.base_url);
    // Nobody else may send us to a file of this machine, or from TLS to without.
    if (!base || base->scheme != from.scheme) {
      return fail(ErrorKind::corrupt, "catalog_invalid",
                  fmt::format("baseUrl of the pointer document is \"{}\"; it must be an address of {}://",
                              pointer.base_url.substr(0, 200), from.scheme),
                  "baseUrl");
    }
    return pointer;
  }

  // Else the report says why not.
  bool is_newer(const catalog::Pointer& pointer) {
    report_.version = pointer.version.text();
    const auto active = catalog::SemVer::parse(now_.version);
    const bool newer = active && pointer.version > *active;
    if (newer && catalog::is_eligible(pointer.version, question_.bundled_version)) return true;
    report_.outcome = newer ? UpdateOutcome::incompatible : UpdateOutcome::up_to_date;
    report_.message = newer ? fmt::format("version {} is for another version of the service; this one has {}",
                                          report_.version, question_.bundled_version)
                            : fmt::format("version {} is not newer than {}", report_.version, now_.version);
    return false;
  }

  Result<std::string> index_text(const catalog::Pointer& pointer, Kind kind,
                                 const catalog::Pointer::Index& index) {
    if (const auto same = now_.sha256.find(kind); same != now_.sha256.end() && same->second == index.sha256) {
      auto text = read_file(catalog::live_index(question_.live_folder, now_.version, kind),
                            catalog::kMaxDocumentBytes);
      if (text && sha256_hex(*text) == index.sha256) return text;
    }
    GEZEL_TRY(std::string text,
              transfers_.fetch_text(
                  fmt::format("{}/{}", pointer.base_url, downloads::percent_encoded_path(index.path)),
                  catalog::kMaxDocumentBytes, {}, cancellation_));
    if (const std::string actual = sha256_hex(text); actual != index.sha256) {
      return fail(
          ErrorKind::corrupt, "hash_mismatch",
          fmt::format("{} has SHA-256 {}; the pointer document says {}", index.path, actual, index.sha256));
    }
    return text;
  }

  Result<Candidate> fetch(const catalog::Pointer& pointer) {
    Candidate out;
    for (const auto& [kind, index] : pointer.kinds) {
      GEZEL_TRY(std::string text, index_text(pointer, kind, index));
      GEZEL_TRY(const catalog::Parsed parsed, catalog::parse_content(text, kind));
      const auto wrong = std::ranges::count_if(
          parsed.problems, [](const catalog::Problem& problem) { return !problem.entry.empty(); });
      if (wrong == 0 && parsed.items.size() != index.count) {
        return fail(ErrorKind::corrupt, "catalog_invalid",
                    fmt::format("{} has {} items; the pointer document says {}", index.path,
                                parsed.items.size(), index.count));
      }
      out.items.insert(out.items.end(), parsed.items.begin(), parsed.items.end());
      out.texts.emplace(kind, std::move(text));
    }
    return out;
  }

  Result<> activate(const catalog::Pointer& pointer, const Candidate& candidate) {
    const std::string version = pointer.version.text();
    const fs::path staging = question_.live_folder / kStaging, target = question_.live_folder / version;
    std::error_code error;
    fs::remove_all(staging, error);
    json::object kinds;
    for (const auto& [kind, text] : candidate.texts) {
      const fs::path file = staging / catalog::folder_name(kind) / "index.json";
      GEZEL_CHECK(make_private_folder(file.parent_path()));
      GEZEL_CHECK(write_file_atomic(file, text));
      kinds[catalog::to_string(kind)] = json::object{{"sha256", pointer.kinds.at(kind).sha256}};
    }
    if (!question_.may_activate()) {
      fs::remove_all(staging, error);
      report_.outcome = UpdateOutcome::blocked;
      report_.message = "updates were switched off meanwhile";
      return {};
    }
    fs::remove_all(target, error);  // left over by a crash: current.json does not name it
    fs::rename(staging, target, error);
    if (error) return std::unexpected(errno_error(fmt::format("rename {}", staging.string()), error.value()));
    GEZEL_CHECK(sync_folder(question_.live_folder));
    const json::object current{{"contentVersion", version}, {"kinds", std::move(kinds)}};
    GEZEL_CHECK(write_file_atomic(question_.live_folder / catalog::kCurrentName, to_json(current) + "\n"));
    remove_others(version);
    report_.outcome = UpdateOutcome::updated;
    report_.message = fmt::format("version {} is in use", version);
    return {};
  }

  void remove_others(const std::string& version) const {
    std::error_code error;
    for (fs::directory_iterator it(question_.live_folder, error), end; !error && it != end;
         it.increment(error)) {
      std::error_code ignored;
      if (fs::is_directory(it->symlink_status(ignored)) && it->path().filename() != version)
        fs::remove_all(it->path(), ignored);
    }
  }

  const UpdateQuestion& question_;
  const catalog::Catalog& catalog_;
  const downloads::Transfers& transfers_;
  const downloads::Cancellation& cancellation_;
  const catalog::Catalog::Content now_;
  UpdateReport report_;
};

}  // namespace

std::string_view to_string(UpdateOutcome outcome) {
  switch (outcome) {
    case UpdateOutcome::up_to_date:
      return "up-to-date";
    case UpdateOutcome::updated:
      return "updated";
    case UpdateOutcome::incompatible:
      return "incompatible";
    case UpdateOutcome::error:
      return "error";
    case UpdateOutcome::blocked:
      return "blocked";
  }
  return {};
}

UpdateReport update_catalog(const UpdateQuestion& question, const catalog::Catalog& catalog,
                            const downloads::Transfers& transfers,
                            const downloads::Cancellation& cancellation) {
  return Update(question, catalog, transfers, cancellation).run();
}

Result<> forget_updates(const fs::path& live_folder) {
  std::error_code error;
  // First what makes it count.
  fs::remove(live_folder / catalog::kCurrentName, error);
  if (!error) fs::remove_all(live_folder, error);
  if (error)
    return std::unexpected(errno_error(fmt::format("remove {}", live_folder.string()), error.value()));
  return {};
}

}  // namespace gezel::models
