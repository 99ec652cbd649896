#include "models/bundle_imports.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "models/bundle_client.h"
#include "models/disk.h"
#include "models/publish.h"

namespace gezel::models {
namespace {

constexpr std::string_view kArchive = "archive.gezmodel", kReview = "review.json";
constexpr Bytes kMaxReviewBytes = 64 * kKiB;

std::unexpected<Error> not_found(const std::string& import_id) {
  return fail(
      ErrorKind::not_found, "import_not_found",
      fmt::format("there is no import \"{}\"; one that was not confirmed is forgotten after a day. Scan the "
                  "bundle again",
                  import_id.substr(0, 64)),
      "importId");
}

// What confirm() needs to know of a scan.
struct Scanned {
  fs::path archive;
  FileStamp stamp;
  std::string manifest_sha256;
  std::int64_t at_ms = 0;
};

Result<> write_scanned(const fs::path& folder, const Scanned& scanned) {
  return write_file_atomic(folder / kReview, to_json(json::object{{"schemaVersion", 1},
                                                                  {"archive", scanned.archive.string()},
                                                                  {"sizeBytes", scanned.stamp.size},
                                                                  {"mtimeNs", scanned.stamp.mtime_ns},
                                                                  {"inode", scanned.stamp.inode},
                                                                  {"manifestSha256", scanned.manifest_sha256},
                                                                  {"scannedAt", scanned.at_ms}}) +
                                                 "\n");
}

std::optional<Scanned> read_scanned(const fs::path& folder) {
  const auto text = read_file(folder / kReview, kMaxReviewBytes);
  const auto parsed = text ? parse_json(*text) : Result<json::value>(json::value());
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const auto& members = parsed->get_object();
  Scanned out;
  out.archive = string_or(members, "archive");
  out.stamp = {static_cast<Bytes>(int_or(members, "sizeBytes", 0)), int_or(members, "mtimeNs", 0),
               static_cast<std::uint64_t>(int_or(members, "inode", 0))};
  out.manifest_sha256 = string_or(members, "manifestSha256");
  out.at_ms = int_or(members, "scannedAt", 0);
  if (out.archive.empty() || out.manifest_sha256.empty()) return std::nullopt;
  return out;
}

std::vector<fs::path> folders_in(const fs::path& root) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (is_import_id(it->path().filename().string())) out.push_back(it->path());
  }
  return out;
}

// A bundle asks nobody twice.
class NoWaiter final : public downloads::Waiter {
 public:
  bool wait(Millis, const downloads::Cancellation& cancellation) override {
    return !cancellation.cancelled();
  }
};

std::unexpected<Error> taken(const std::string& id) {
  return fail(
      ErrorKind::conflict, "model_exists",
      fmt::format("a model \"{}\" is there already; confirm with \"replace\": true to replace it", id), "id");
}

}  // namespace

bool is_import_id(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

json::object review_json(const BundleReview& review) {
  json::object out = bundle_manifest_json(review.manifest);
  json::array files = std::move(out.at("files").as_array());
  std::size_t models = 0;
  for (const auto& file : review.manifest.files) models += file.role == BundleRole::model ? 1 : 0;
  out.erase("files");
  out.erase("schemaVersion");
  out.erase("kind");
  out["importId"] = review.import_id;
  out["modelFiles"] = models;
  out["files"] = std::move(files);
  out["exists"] = review.replaces;
  out["expiresAt"] = review.expires_at_ms;
  json::array warnings;
  for (const auto& warning : review.warnings) warnings.emplace_back(warning);
  out["warnings"] = std::move(warnings);
  return out;
}

BundleImports::BundleImports(fs::path home, const Clock& clock, Entropy& entropy)
    : home_(std::move(home)),
      root_(home_ / ".transactions" / "gezmodel-imports"),
      clock_(clock),
      entropy_(entropy) {}

Result<fs::path> BundleImports::begin(const std::string& import_id) const {
  if (!is_import_id(import_id)) {
    return fail(ErrorKind::invalid, "invalid_import_id",
                "an import id is a UUID in lower case: 36 hexadecimal digits and dashes", "importId");
  }
  const fs::path made = folder(import_id);
  GEZEL_CHECK(check_real_folders(home_, made));
  std::error_code error;
  if (fs::exists(fs::symlink_status(made, error))) {
    return fail(ErrorKind::conflict, "import_exists",
                fmt::format("the import \"{}\" is there already; confirm or delete it, or take another id",
                            import_id),
                "importId");
  }
  if (folders_in(root_).size() >= kMaxReviews) {
    return fail(
        ErrorKind::conflict, "too_many_imports",
        fmt::format("{} bundles wait for being confirmed, the most there may be; confirm or delete some",
                    kMaxReviews));
  }
  GEZEL_CHECK(make_private_folder(made));
  return made / kArchive;
}

Result<BundleReview> BundleImports::scan(const std::string& import_id, const fs::path& path,
                                         const ModelStore& store, const ScanProgress& progress) const {
  const fs::path archive = path.empty() ? folder(import_id) / kArchive : path;
  auto review = look(import_id, archive, store, progress);
  if (!review) remove_quietly(folder(import_id));
  return review;
}

Result<BundleReview> BundleImports::look(const std::string& import_id, const fs::path& archive,
                                         const ModelStore& store, const ScanProgress& progress) const {
  const auto go_on = [&](ScanPhase phase, Bytes done, Bytes total) {
    return !progress || progress(phase, done, total);
  };
  const auto cancelled = [] { return fail(ErrorKind::cancelled, "cancelled", "the import was cancelled"); };
  GEZEL_TRY(const auto source, zip::FileSource::open(archive.string()));
  if (!go_on(ScanPhase::inspecting, 0, source.size())) return cancelled();
  GEZEL_TRY(const FileStamp stamp, stamp_file(archive));
  GEZEL_TRY(const Bundle bundle, open_bundle(source));
  GEZEL_CHECK(plan_bundle(bundle));
  Bytes total = 0;
  for (const auto& file : bundle.manifest.files) total += file.size_bytes;
  GEZEL_CHECK(
      verify_bundle(source, bundle, [&](Bytes done) { return go_on(ScanPhase::verifying, done, total); }));
  if (!go_on(ScanPhase::validating, total, total)) return cancelled();
  const std::int64_t now = unix_millis(clock_.wall_now());
  GEZEL_CHECK(write_scanned(folder(import_id), {archive, stamp, bundle.manifest_sha256, now}));
  return BundleReview{.import_id = import_id,
                      .manifest = bundle.manifest,
                      .warnings = bundle_warnings(bundle),
                      .replaces = store.has(bundle.manifest.id),
                      .expires_at_ms = now + kKeepReview.count()};
}

Result<InstalledModel> BundleImports::confirm(const std::string& import_id, bool replace, ModelStore& store,
                                              InstallObserver& observer,
                                              const downloads::Cancellation& cancellation,
                                              const StepHook& at_step) const {
  if (!is_import_id(import_id)) return not_found(import_id);
  const auto scanned = read_scanned(folder(import_id));
  if (!scanned || unix_millis(clock_.wall_now()) - scanned->at_ms > kKeepReview.count())
    return not_found(import_id);
  const auto changed = [&] {
    return fail(ErrorKind::conflict, "bundle_changed",
                "the bundle is not the one that was looked at any more; scan it again", "importId");
  };
  const auto stamp = stamp_file(scanned->archive);
  if (!stamp || *stamp != scanned->stamp) return changed();
  GEZEL_TRY(const auto source, zip::FileSource::open(scanned->archive.string()));
  GEZEL_TRY(const Bundle bundle, open_bundle(source));
  if (bundle.manifest_sha256 != scanned->manifest_sha256) return changed();
  GEZEL_TRY(const InstallPlan plan, plan_bundle(bundle));
  if (!replace && store.has(plan.id)) return taken(plan.id);
  BundleClient client(source, bundle);
  NoWaiter waiter;
  const downloads::Transfers transfers(client, waiter, entropy_);
  const auto installed = install(store, transfers, clock_, plan, {.replace = replace, .at_step = at_step},
                                 observer, cancellation);
  if (!installed) return std::unexpected(installed.error().error);
  remove_quietly(folder(import_id));
  return store.find(plan.id);
}

Result<> BundleImports::discard(const std::string& import_id) const {
  std::error_code error;
  if (!is_import_id(import_id) || !fs::is_directory(fs::symlink_status(folder(import_id), error)))
    return not_found(import_id);
  GEZEL_CHECK(check_real_folders(home_, folder(import_id)));
  remove_quietly(folder(import_id));
  return {};
}

void BundleImports::remove_stale(const std::vector<std::string>& busy) const {
  if (!check_real_folders(home_, root_)) return;
  const std::int64_t now = unix_millis(clock_.wall_now());
  for (const auto& path : folders_in(root_)) {
    if (std::ranges::find(busy, path.filename().string()) != busy.end()) continue;
    const auto scanned = read_scanned(path);
    if (!scanned || now - scanned->at_ms > kKeepReview.count()) remove_quietly(path);
  }
}

}  // namespace gezel::models
