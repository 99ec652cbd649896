#include "models/publish.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "models/disk.h"
#include "models/ids.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

constexpr std::string_view kIncoming = ".incoming";
constexpr std::string_view kImportPrefix = ".import-";
constexpr std::string_view kBackupMark = ".backup-";

Result<> rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    return std::unexpected(
        errno_error(fmt::format("rename {} to {}", from.string(), to.string()), error.value()));
  }
  return {};
}

// Never follows a link: what is removed is the entry itself.
void remove_quietly(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    log_warn("cannot remove a leftover of the model store",
             {{"path", path.string()}, {"error", error.message()}});
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    out.push_back(it->path());
  }
  return out;
}

// The id in ".<id>.backup-<uuid>".
std::optional<std::string> backup_id(const std::string& name) {
  const std::size_t mark = name.rfind(kBackupMark);
  if (!name.starts_with('.') || mark == std::string::npos || mark < 2) return std::nullopt;
  std::string id = name.substr(1, mark - 1);
  if (!is_store_safe_id(id)) return std::nullopt;
  return id;
}

bool is_installed(const fs::path& folder) {
  const auto text = read_file(folder / kManifestName, kMaxManifestBytes);
  return text && parse_manifest(*text, folder);
}

void recover_backup(const fs::path& root, const fs::path& backup, const std::string& id) {
  const fs::path folder = root / id;
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) {
    // The new model is complete as soon as it has its name; a broken one must not cost the old one as well.
    if (is_installed(folder)) remove_quietly(backup);
    return;
  }
  if (const auto back = rename_folder(backup, folder); back) {
    log_info("brought back a model whose replacement was interrupted", {{"model", id}});
  } else {
    log_warn("cannot bring back a model", {{"model", id}, {"error", back.error().message}});
  }
}

}  // namespace

Result<Staging> Staging::create(const fs::path& home, const fs::path& root, const std::string& id) {
  Staging out;
  out.home_ = home;
  out.root_ = root;
  out.id_ = id;
  const fs::path folder = root / kIncoming / fmt::format("{}{}", kImportPrefix, id);
  GEZEL_CHECK(check_real_folders(home, folder));
  remove_quietly(folder);
  GEZEL_CHECK(make_private_folder(folder));
  out.folder_ = folder;
  return out;
}

Staging::Staging(Staging&& other) noexcept
    : home_(std::move(other.home_)),
      root_(std::move(other.root_)),
      folder_(std::exchange(other.folder_, {})),
      id_(std::move(other.id_)) {}

Staging::~Staging() {
  if (!folder_.empty()) remove_quietly(folder_);
}

Result<> Staging::publish(Entropy& entropy) {
  GEZEL_CHECK(publish_folder(home_, root_, folder_, id_, entropy));
  folder_.clear();
  return {};
}

Result<> publish_folder(const fs::path& home, const fs::path& root, const fs::path& folder,
                        const std::string& id, Entropy& entropy,
                        const std::function<void(std::string_view)>& at_step) {
  const auto reached = [&](std::string_view step) {
    if (at_step) at_step(step);
  };
  const fs::path target = root / id;
  GEZEL_CHECK(check_real_folders(home, target));
  GEZEL_CHECK(check_real_folders(home, folder));
  GEZEL_CHECK(sync_folder(folder));
  fs::path backup;
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error))) {
    backup = root / fmt::format(".{}{}{}", id, kBackupMark, new_uuid(entropy));
    GEZEL_CHECK(rename_folder(target, backup));
    reached("backup");
  }
  if (auto published = rename_folder(folder, target); !published) {
    if (!backup.empty()) {
      if (const auto back = rename_folder(backup, target); !back) {
        log_error("cannot restore a model; the next start tries again",
                  {{"model", id}, {"error", back.error().message}});
      }
    }
    return published;
  }
  reached("published");
  // From here on the new model is there. What fails now costs durability or space, not the model.
  if (const auto synced = sync_folder(root); !synced)
    log_warn("a published model may not survive a power failure",
             {{"model", id}, {"error", synced.error().message}});
  reached("synced");
  if (!backup.empty()) remove_quietly(backup);
  reached("cleaned");
  return {};
}

void recover_publishes(const fs::path& home, const fs::path& root, const std::vector<std::string>& active) {
  const fs::path incoming = root / kIncoming;
  if (!check_real_folders(home, root)) return;
  for (const fs::path& entry : entries(root)) {
    const std::string name = entry.filename().string();
    if (name.starts_with('.') && name.find(kDeletedMark) != std::string::npos) {
      remove_quietly(entry);
      continue;
    }
    if (const auto id = backup_id(name)) {
      if (std::find(active.begin(), active.end(), *id) == active.end()) recover_backup(root, entry, *id);
    }
  }
  if (!check_real_folders(home, incoming)) return;
  for (const fs::path& entry : entries(incoming)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(kImportPrefix)) continue;
    if (std::find(active.begin(), active.end(), name.substr(kImportPrefix.size())) == active.end())
      remove_quietly(entry);
  }
}

}  // namespace gezel::models
