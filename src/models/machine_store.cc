// The machine's own model store, as the service that owns it sees it (spec 60 section 7.1). Reading it as
// somebody else is shared_models.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "models/disk.h"
#include "models/manifest.h"
#include "models/shared_models.h"
#include "models/store.h"

namespace gezel::models {
namespace {

constexpr unsigned kFileForAll = 0644;
constexpr auto kFolderForAll = fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                               fs::perms::others_read | fs::perms::others_exec;

// Every folder and file below `folder`, itself included; links are left alone.
Result<> open_folder(const fs::path& folder) {
  std::error_code error;
  fs::permissions(folder, kFolderForAll, error);
  if (error) return std::unexpected(errno_error(fmt::format("chmod {}", folder.string()), error.value()));
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    const auto status = it->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status)) {
      fs::permissions(it->path(), kFolderForAll, error);
      if (error) break;
    } else if (fs::is_regular_file(status)) {
      if (auto set = set_file_mode(it->path(), kFileForAll); !set)
        return std::unexpected(std::move(set).error());
    }
  }
  if (error) return std::unexpected(errno_error(fmt::format("chmod in {}", folder.string()), error.value()));
  return {};
}

bool has_every_digest(const InstalledModel& model) {
  return std::ranges::all_of(model.files, [&](const fs::path& file) {
    const auto found = model.sha256.find(file.filename().string());
    return found != model.sha256.end() && !found->second.empty();
  });
}

}  // namespace

MachineStore machine_store(std::string_view folder, std::string_view system_scope) {
  const fs::path path(folder);
  if (!path.is_absolute()) return {};
  return {.folder = path.lexically_normal(), .own = system_scope == "1"};
}

void ModelStore::open_to_all(const std::string& id) const {
  if (!own_machine_) return;
  // Nobody gets to it through folders that are closed; nothing in them but models is opened.
  std::error_code ignored;
  for (const fs::path& way : {root_.parent_path(), root_}) fs::permissions(way, kFolderForAll, ignored);
  // One that we made ourselves is closed; what else is in it is nobody's business.
  fs::permissions(home_, fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add, ignored);
  open_before_publish(root_ / id, id);
}

void ModelStore::open_before_publish(const fs::path& folder, const std::string& id) const {
  if (!own_machine_) return;
  if (const auto opened = open_folder(folder); !opened) {
    log_warn("others on this machine cannot use a model",
             {{"model", id}, {"reason", opened.error().message}});
  }
}

unsigned ModelStore::manifest_mode() const {
  return own_machine_ ? kFileForAll : 0600;
}

bool ModelStore::needs_opening(const fs::path& file) const {
  std::error_code ignored;
  return own_machine_ && fs::status(file, ignored).permissions() != fs::perms(kFileForAll);
}

bool ModelStore::verify_machine_models(const std::function<bool(Bytes)>& progress) {
  if (!shared_) return false;
  const auto before = shared_->known().size();
  return shared_->list(progress).size() > before;
}

std::vector<std::string> ModelStore::move_in_private_models(const std::function<bool(Bytes)>& progress) {
  std::vector<std::string> out;
  if (!own_machine_) return out;
  ModelStore before(private_home_, clock_, entropy_, backend_);
  for (const auto& model : before.inventory().installed) {
    std::error_code error;
    // What lies elsewhere is not the machine's to give.
    if (model.source == "external" || fs::exists(fs::symlink_status(root_ / model.id, error))) continue;
    const auto stays = [&](const Error& problem) {
      log_warn("a model stays in the private store", {{"model", model.id}, {"reason", problem.message}});
    };
    const auto shared = std::ranges::find_if(model.files, [&](const fs::path& file) {
      std::error_code unknown;
      return needs_opening(file) && fs::hard_link_count(file, unknown) > 1;
    });
    if (shared != model.files.end()) {
      stays({ErrorKind::denied,
             "denied",
             fmt::format("{} has another name outside the store and mode 0644 would hold for that too; "
                         "import it again with mode copy",
                         shared->string()),
             {}});
      continue;
    }
    if (!has_every_digest(model)) {
      if (const auto hashed = before.verify(model, progress); !hashed) {
        if (hashed.error().kind == ErrorKind::cancelled) break;
        stays(hashed.error());
        continue;
      }
    }
    const std::lock_guard lock(mutex_);
    fs::create_directories(root_, error);
    if (error || !check_real_folders(home_, root_ / model.id)) {
      stays(errno_error("create the machine's store", error.value()));
      continue;
    }
    open_before_publish(before.root_ / model.id, model.id);
    fs::rename(before.root_ / model.id, root_ / model.id, error);
    if (error) {
      stays(errno_error(fmt::format("rename {}", (before.root_ / model.id).string()), error.value()));
      continue;
    }
    open_to_all(model.id);
    log_info("a model moved into the machine's store", {{"model", model.id}});
    out.push_back(model.id);
  }
  return out;
}

}  // namespace gezel::models
