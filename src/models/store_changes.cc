// Installing into and deleting from the store: what changes its folders, one id at a time.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "models/disk.h"
#include "models/ids.h"
#include "models/manifest.h"
#include "models/publish.h"
#include "models/shared_models.h"
#include "models/staging.h"
#include "models/store.h"

namespace gezel::models {
namespace {

constexpr int kRemoveTries = 4;
constexpr Millis kRemoveDelay{150};  // times the number of the try

bool is_real_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

std::vector<std::string> folder_names(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (is_store_safe_id(name) && fs::is_directory(it->symlink_status(ignored))) out.push_back(name);
  }
  return out;
}

bool is_transient(const std::error_code& error) {
  return error == std::errc::device_or_resource_busy || error == std::errc::operation_not_permitted ||
         error == std::errc::permission_denied || error == std::errc::directory_not_empty;
}

}  // namespace

InstallSlot::InstallSlot(InstallSlot&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), id_(std::move(other.id_)) {}

InstallSlot::~InstallSlot() {
  if (store_ == nullptr) return;
  const std::lock_guard lock(store_->mutex_);
  std::erase(store_->importing_, id_);
}

bool ModelStore::is_installing(std::string_view id) const {
  return std::ranges::any_of(importing_, [&](const std::string& other) { return same_id(id, other); });
}

ModelStore::Doomed::Doomed(ModelStore& store, std::vector<fs::path> folders)
    : store_(store), folders_(std::move(folders)) {
  std::erase_if(folders_, [&](const fs::path& folder) {
    return folder.empty() || !store_.doomed_.insert(folder).second;
  });
}

ModelStore::Doomed::~Doomed() {
  const std::lock_guard lock(store_.mutex_);
  for (const fs::path& folder : folders_) store_.doomed_.erase(folder);
}

void ModelStore::Doomed::remove() {
  for (const fs::path& folder : folders_) store_.remove_folder_(folder);
}

Result<InstallSlot> ModelStore::begin_install(const std::string& id) {
  GEZEL_CHECK(check_store_safe_id(id));
  std::optional<Doomed> doomed;
  {
    const std::lock_guard lock(mutex_);
    if (is_installing(id)) {
      return fail(ErrorKind::conflict, "install_in_progress",
                  fmt::format("\"{}\" is being installed already; wait for it or cancel it", id), "model");
    }
    doomed.emplace(*this, recover_publishes(home_, root_, importing_, entropy_));
    importing_.push_back(id);
  }
  InstallSlot slot(*this, id);
  doomed->remove();
  return slot;
}

fs::path ModelStore::staging(const InstallSlot& slot) const {
  return root_ / kIncoming / slot.id();
}

Result<> ModelStore::publish_install(const InstallSlot& slot, const StepHook& at_step) {
  std::optional<Doomed> doomed;
  {
    const std::lock_guard lock(mutex_);
    open_before_publish(staging(slot), slot.id());
    GEZEL_TRY(fs::path old, publish_folder(home_, root_, staging(slot), slot.id(), entropy_, at_step));
    open_to_all(slot.id());
    doomed.emplace(*this, std::vector{std::move(old)});
  }
  doomed->remove();
  if (at_step) at_step("cleaned");
  return {};
}

std::vector<IncompleteModel> ModelStore::incomplete() const {
  std::vector<std::string> busy;
  {
    const std::lock_guard lock(mutex_);
    busy = importing_;
  }
  std::map<std::string, IncompleteModel> found;
  for (const fs::path& folder : {root_ / kIncoming, root_}) {
    for (const auto& id : folder_names(folder)) {
      if (std::ranges::any_of(busy, [&](const auto& other) { return same_id(id, other); })) continue;
      const FolderSize size = measure_folder(folder / id);
      // In staging a manifest only says that the publish was not reached.
      if ((size.has_manifest && folder == root_) || size.payload_bytes == 0) continue;
      // A stopped update belongs to its model: deleting it by that id would delete the model.
      if (std::error_code ignored; fs::exists(fs::symlink_status(root_ / id / kManifestName, ignored)))
        continue;
      auto& entry = found[id];
      entry.id = id;
      entry.bytes += size.payload_bytes;
      entry.updated_at_ms = std::max(entry.updated_at_ms, size.newest_ms);
      entry.has_partial = entry.has_partial || size.has_partial;
    }
  }
  std::vector<IncompleteModel> out;
  for (auto& [id, entry] : found) out.push_back(std::move(entry));
  std::ranges::sort(
      out, [](const auto& a, const auto& b) { return std::tie(b.bytes, a.id) < std::tie(a.bytes, b.id); });
  return out;
}

std::vector<std::string> ModelStore::remove_stale_downloads() {
  std::vector<std::string> out;
  for (const fs::path& folder : {root_ / kIncoming, root_}) {
    if (!check_real_folders(home_, folder)) continue;
    for (const auto& id : folder_names(folder)) {
      const fs::path path = folder / id;
      // Looked at without the lock first: a large folder takes a while as well.
      if (!is_stale(measure_folder(path), clock_.wall_now())) continue;
      std::optional<Doomed> doomed;
      {
        const std::lock_guard lock(mutex_);
        if (is_installing(id) || !check_real_folders(home_, path) ||
            !is_stale(measure_folder(path), clock_.wall_now()))
          continue;
        auto aside = set_aside(root_, path, id, entropy_);
        if (!aside) {
          log_warn("cannot remove an old download", {{"model", id}, {"error", aside.error().message}});
          continue;
        }
        doomed.emplace(*this, std::vector{std::move(*aside)});
      }
      doomed->remove();
      log_info("removed a download that nobody went on with for seven days", {{"model", id}});
      out.push_back(id);
    }
  }
  return out;
}

Result<> ModelStore::remove(const RemoveRequest& request) {
  GEZEL_CHECK(check_store_safe_id(request.id));
  const fs::path folder = root_ / request.id, staged = root_ / kIncoming / request.id;
  GEZEL_CHECK(check_real_folders(home_, folder));
  GEZEL_CHECK(check_real_folders(home_, staged));
  if (!is_real_folder(folder) && !is_real_folder(staged)) {
    if (request.supplied_by_machine || (shared_ && shared_->supplies(request.id)))
      return std::unexpected(read_only_model(request.id));
    return fail(ErrorKind::not_found, "model_not_installed",
                fmt::format("the model \"{}\" is not installed", request.id), "model");
  }
  if (!request.in_use_by.empty()) {
    return fail(ErrorKind::conflict, "model_in_use",
                fmt::format("\"{}\" is in use by {}; unload it first, or force the deletion", request.id,
                            request.in_use_by),
                "model");
  }
  std::string left;  // what is still there afterwards
  std::optional<Doomed> doomed;
  {
    const std::lock_guard lock(mutex_);
    if (is_installing(request.id)) {
      return fail(ErrorKind::conflict, "install_in_progress",
                  fmt::format("\"{}\" is being installed; cancel that first", request.id), "model");
    }
    // The model is gone with the first rename, whatever becomes of its bytes: from there on this only deletes
    // what it can.
    std::vector<fs::path> aside;
    for (const fs::path& path : {folder, staged}) {
      if (!is_real_folder(path)) continue;
      auto moved = set_aside(root_, path, request.id, entropy_);
      if (moved) {
        aside.push_back(std::move(*moved));
      } else if (aside.empty()) {
        return std::unexpected(std::move(moved).error());
      } else {
        left = fmt::format("a stopped download of it cannot be removed yet ({}); delete it again",
                           moved.error().message);
      }
    }
    doomed.emplace(*this, std::move(aside));
  }
  for (const fs::path& path : doomed->folders()) {
    std::error_code error;
    for (int attempt = 1; true; ++attempt) {
      fs::remove_all(path, error);
      if (!error || !is_transient(error) || attempt == kRemoveTries) break;
      if (!request.wait || !request.wait(kRemoveDelay * attempt)) break;
    }
    if (error) {
      left = fmt::format(
          "its files cannot be removed yet ({}): one may still be open; switch to another model, "
          "and the next start removes them",
          error.message());
    }
  }
  if (left.empty()) return {};
  return fail(ErrorKind::conflict, "model_locked", fmt::format("\"{}\" is deleted, but {}", request.id, left),
              "model");
}

Result<> ModelStore::record_fingerprint(std::string_view id, const std::string& fingerprint) {
  GEZEL_CHECK(check_store_safe_id(id));
  const fs::path folder = root_ / id;
  const std::lock_guard lock(mutex_);
  GEZEL_CHECK(check_real_folders(home_, folder));
  GEZEL_TRY(const std::string text, read_file(folder / kManifestName, kMaxManifestBytes));
  GEZEL_TRY(Manifest manifest, parse_manifest(text, folder));
  if (is_installing(id) || !manifest.model.payload_fingerprint.empty()) return {};
  manifest.members["payloadFingerprint"] = fingerprint;
  GEZEL_CHECK(write_file_atomic(folder / kManifestName, to_json(manifest.members) + "\n", manifest_mode()));
  open_to_all(std::string(id));
  return {};
}

}  // namespace gezel::models
