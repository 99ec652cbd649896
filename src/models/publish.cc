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
constexpr std::string_view kDeletedMark = ".deleted-";

Result<> rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    return std::unexpected(
        errno_error(fmt::format("rename {} to {}", from.string(), to.string()), error.value()));
  }
  return {};
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    out.push_back(it->path());
  }
  return out;
}

// The id in ".<id><mark><uuid>". An id may itself look like a mark; what follows the last mark has no dot.
std::optional<std::string> marked(const std::string& name, std::string_view mark) {
  const std::size_t at = name.rfind(mark);
  if (!name.starts_with('.') || at == std::string::npos || at < 2) return std::nullopt;
  if (name.find('.', at + mark.size()) != std::string::npos) return std::nullopt;
  std::string id = name.substr(1, at - 1);
  if (!is_store_safe_id(id)) return std::nullopt;
  return id;
}

void collect(Result<fs::path> aside, const std::string& id, std::vector<fs::path>& doomed) {
  if (aside)
    doomed.push_back(std::move(*aside));
  else
    log_warn("cannot set aside what is left of a model; the next start tries again",
             {{"model", id}, {"error", aside.error().message}});
}

bool is_installed(const fs::path& folder) {
  const auto text = read_file(folder / kManifestName, kMaxManifestBytes);
  return text && parse_manifest(*text, folder);
}

// The folder of that id is there again, or the backup is superseded and set aside.
void recover_backup(const fs::path& root, const fs::path& backup, const std::string& id, Entropy& entropy,
                    std::vector<fs::path>& doomed) {
  const fs::path folder = root / id;
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) {
    // The new model is complete as soon as it has its name; a broken one must not cost the old one as well.
    if (is_installed(folder)) collect(set_aside(root, backup, id, entropy), id, doomed);
    return;
  }
  if (const auto back = rename_folder(backup, folder); back) {
    log_info("brought back a model whose replacement was interrupted", {{"model", id}});
  } else {
    log_warn("cannot bring back a model", {{"model", id}, {"error", back.error().message}});
  }
}

}  // namespace

void remove_quietly(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    log_warn("cannot remove a leftover of the model store",
             {{"path", path.string()}, {"error", error.message()}});
}

Result<fs::path> set_aside(const fs::path& root, const fs::path& folder, const std::string& id,
                           Entropy& entropy) {
  fs::path aside = root / fmt::format(".{}{}{}", id, kDeletedMark, new_uuid(entropy));
  GEZEL_CHECK(rename_folder(folder, aside));
  return aside;
}

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

Result<fs::path> Staging::publish(Entropy& entropy) {
  GEZEL_TRY(fs::path old, publish_folder(home_, root_, folder_, id_, entropy));
  folder_.clear();
  return old;
}

Result<fs::path> publish_folder(const fs::path& home, const fs::path& root, const fs::path& folder,
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
    return std::unexpected(std::move(published).error());
  }
  reached("published");
  // From here on the new model is there. What fails now costs durability or space, not the model.
  if (const auto synced = sync_folder(root); !synced)
    log_warn("a published model may not survive a power failure",
             {{"model", id}, {"error", synced.error().message}});
  reached("synced");
  if (backup.empty()) return fs::path();
  // As a backup it could come back, should the new model be deleted before all of it is gone.
  std::vector<fs::path> doomed;
  collect(set_aside(root, backup, id, entropy), id, doomed);
  reached("set aside");
  return doomed.empty() ? fs::path() : std::move(doomed.front());
}

std::vector<fs::path> recover_publishes(const fs::path& home, const fs::path& root,
                                        const std::vector<std::string>& active, Entropy& entropy) {
  std::vector<fs::path> doomed;
  const auto is_active = [&](std::string_view id) {
    return std::find(active.begin(), active.end(), id) != active.end();
  };
  const fs::path incoming = root / kIncoming;
  if (!check_real_folders(home, root)) return doomed;
  for (const fs::path& entry : entries(root)) {
    const std::string name = entry.filename().string();
    if (marked(name, kDeletedMark))
      doomed.push_back(entry);
    else if (const auto id = marked(name, kBackupMark); id && !is_active(*id))
      recover_backup(root, entry, *id, entropy, doomed);
  }
  if (!check_real_folders(home, incoming)) return doomed;
  for (const fs::path& entry : entries(incoming)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(kImportPrefix)) continue;
    const std::string id = name.substr(kImportPrefix.size());
    // Aside, so that an import that gets the same id next has its folder for itself.
    if (!is_active(id)) collect(set_aside(root, entry, id, entropy), id, doomed);
  }
  return doomed;
}

}  // namespace gezel::models
