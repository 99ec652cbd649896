#include "models/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "models/disk.h"
#include "models/ids.h"
#include "models/manifest.h"
#include "models/publish.h"
#include "models/shared_models.h"
#include "models/staging.h"

namespace gezel::models {
namespace {

constexpr int kMaxModels = 4096;

bool is_external(const InstalledModel& model) {
  return model.source == "external";
}

Bytes bytes_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

// What is wrong with a payload file, or "".
std::string file_problem(const fs::path& file, bool external) {
  std::error_code error;
  // Inside the store a link could lead the worker to any file of the user; a reference may go through links,
  // as the caches of other programs do.
  const auto status = external ? fs::status(file, error) : fs::symlink_status(file, error);
  if (status.type() == fs::file_type::not_found) return "is missing";
  if (status.type() == fs::file_type::none) return "cannot be reached: " + error.message();
  if (status.type() != fs::file_type::regular) return "is not a regular file";
  if (bytes_of(file) == 0) return "is empty";
  return {};
}

Result<std::vector<FileStamp>> stamp_all(const std::vector<fs::path>& files) {
  std::vector<FileStamp> out;
  for (const fs::path& file : files) {
    GEZEL_TRY(const FileStamp stamp, stamp_file(file));
    out.push_back(stamp);
  }
  return out;
}

Result<std::vector<std::string>> hash_all(const std::vector<fs::path>& files,
                                          const std::function<bool(Bytes)>& progress) {
  std::vector<std::string> out;
  Bytes before = 0;
  for (const fs::path& file : files) {
    Bytes here = 0;
    auto digest = sha256_file(file, [&](Bytes bytes) {
      here = bytes;
      return !progress || progress(before + bytes);
    });
    if (!digest) return std::unexpected(std::move(digest).error());
    out.push_back(std::move(*digest));
    before += here;
  }
  return out;
}

// The first file that is provably not what was installed. Without a digest on record only the size can tell.
std::optional<Refusal> find_difference(const InstalledModel& model, const std::vector<FileStamp>& stamps,
                                       const std::vector<std::string>& sha256) {
  for (std::size_t i = 0; i < model.files.size(); ++i) {
    const std::string name = manifest_name(model.files[i], is_external(model));
    if (const auto digest = model.sha256.find(name); digest != model.sha256.end()) {
      if (digest->second != sha256[i])
        return Refusal{name, "SHA-256 " + digest->second, "SHA-256 " + sha256[i]};
    } else if (const auto stamp = model.stamps.find(name);
               stamp != model.stamps.end() && stamp->second.size != stamps[i].size) {
      return Refusal{name, fmt::format("{} bytes", stamp->second.size),
                     fmt::format("{} bytes", stamps[i].size)};
    }
  }
  return std::nullopt;
}

std::string refusal_text(const Refusal& refusal, bool with_path) {
  return fmt::format(
      "its file {} changed since it was imported (expected {}, found {}); if that was intended, run "
      "`gezel import` on it again",
      with_path ? refusal.file : fs::path(refusal.file).filename().string(), refusal.expected,
      refusal.actual);
}

std::unexpected<Error> model_invalid(std::string_view id, std::string_view reason) {
  return fail(ErrorKind::corrupt, "model-invalid",
              fmt::format("the model \"{}\" cannot be used: {}", id, reason), "model");
}

}  // namespace

ModelStore::ModelStore(fs::path home, const Clock& clock, Entropy& entropy, std::string_view backend,
                       const MachineStore& machine)
    : home_(machine.own ? machine.folder : home),
      root_(machine.own ? machine.folder / "models" / backend : home / "engines" / backend / "models"),
      private_home_(std::move(home)),
      backend_(backend),
      own_machine_(machine.own),
      clock_(clock),
      entropy_(entropy),
      free_space_(&free_space),
      remove_folder_(&remove_quietly) {
  if (!machine.own && !machine.folder.empty()) {
    shared_ = std::make_unique<SharedModels>(
        machine.folder / "models" / backend_,
        private_home_ / "engines" / backend_ / "shared-model-verification.json");
  }
}

ModelStore::~ModelStore() = default;

void ModelStore::set_free_space_probe(std::function<std::optional<Bytes>(const fs::path&)> probe) {
  free_space_ = std::move(probe);
}

std::vector<std::string> ModelStore::ids() const {
  std::vector<std::string> out;
  std::error_code error;
  int seen = 0;
  for (fs::directory_iterator it(root_, error), end; !error && it != end; it.increment(error)) {
    if (++seen > kMaxModels) {
      log_warn("the model store has too many entries; the rest is not listed",
               {{"limit", std::to_string(kMaxModels)}});
      break;
    }
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (is_store_safe_id(name) && fs::exists(fs::symlink_status(it->path() / kManifestName, ignored))) {
      out.push_back(name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::expected<Manifest, ModelStore::Unusable> ModelStore::load(const std::string& id) const {
  const fs::path folder = root_ / id;
  const auto unusable = [](const std::string& reason) { return std::unexpected(Unusable{reason, reason}); };
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error)))
    return unusable("its folder is a link, not a folder");
  if (!fs::is_regular_file(fs::symlink_status(folder / kManifestName, error))) {
    return unusable("its manifest.json is not a regular file");
  }
  const auto text = read_file(folder / kManifestName, kMaxManifestBytes);
  if (!text) return unusable("its manifest.json cannot be read");
  auto manifest = parse_manifest(*text, folder);
  if (!manifest) return unusable(manifest.error().message);

  InstalledModel& model = manifest->model;
  for (const fs::path& file : model.files) {
    if (const std::string problem = file_problem(file, is_external(model)); !problem.empty()) {
      return std::unexpected(Unusable{fmt::format("its file {} {}", file.string(), problem),
                                      fmt::format("its file {} {}", file.filename().string(), problem)});
    }
    model.size_bytes += bytes_of(file);
  }
  if (manifest->refused) {
    return std::unexpected(
        Unusable{refusal_text(*manifest->refused, true), refusal_text(*manifest->refused, false)});
  }
  return std::move(*manifest);
}

Inventory ModelStore::inventory() const {
  Inventory out;
  for (const std::string& id : ids()) {
    if (auto manifest = load(id)) {
      out.installed.push_back(std::move(manifest->model));
    } else {
      UnrecognizedModel model{.id = id, .reason = std::move(manifest.error().reason)};
      const FolderSize size = measure_folder(root_ / id);
      model.bytes = size.payload_bytes;
      model.updated_at_ms = size.newest_ms;
      if (const auto text = read_file(root_ / id / kManifestName, kMaxManifestBytes)) {
        if (const auto parsed = parse_json(*text); parsed && parsed->is_object())
          model.name = string_or(parsed->get_object(), "name");
      }
      out.unrecognized.push_back(std::move(model));
    }
  }
  if (shared_) {
    for (auto& model : shared_->known(&out.machine_unread)) {
      const bool own =
          std::ranges::any_of(out.installed, [&](const auto& each) { return each.id == model.id; });
      if (!own) out.installed.push_back(std::move(model));
    }
  }
  std::sort(out.installed.begin(), out.installed.end(),
            [](const auto& a, const auto& b) { return std::tie(a.name, a.id) < std::tie(b.name, b.id); });
  std::sort(out.unrecognized.begin(), out.unrecognized.end(),
            [](const auto& a, const auto& b) { return std::tie(b.bytes, a.id) < std::tie(a.bytes, b.id); });
  out.incomplete = incomplete();
  return out;
}

bool ModelStore::has(std::string_view id) const {
  return std::ranges::any_of(ids(), [&](const std::string& other) { return same_id(id, other); });
}

std::vector<std::string> ModelStore::near_misses(std::string_view id) const {
  auto all = ids();
  if (shared_) {
    for (auto& other : shared_->ids()) all.push_back(std::move(other));
  }
  return most_similar(id, all);
}

Result<InstalledModel> ModelStore::find(std::string_view id,
                                        const std::function<bool(Bytes)>& progress) const {
  std::error_code ignored;
  const std::string wanted(id);
  // A copy of our own counts more; one that cannot be used does not hide the machine's.
  const bool machine = shared_ && shared_->supplies(id);
  if (machine && !fs::exists(fs::symlink_status(root_ / wanted / kManifestName, ignored)))
    return shared_->find(id, progress);
  if (!is_store_safe_id(id) || !fs::exists(fs::symlink_status(root_ / wanted / kManifestName, ignored))) {
    std::string message = fmt::format("the model \"{}\" is not installed", id.substr(0, 200));
    const auto near = near_misses(id);
    if (!near.empty()) message += fmt::format("; did you mean {}?", fmt::join(near, " or "));
    return fail(ErrorKind::not_found, "model_not_found", std::move(message), "model");
  }
  auto manifest = load(wanted);
  if (!manifest && machine) return shared_->find(id, progress);
  if (!manifest) return model_invalid(id, manifest.error().public_reason);
  return std::move(manifest->model);
}

std::optional<ModelStore::Recorded> ModelStore::recorded(std::string_view id) const {
  if (!is_store_safe_id(id)) return std::nullopt;
  const std::string wanted(id);
  if (auto manifest = load(wanted)) return Recorded{std::move(manifest->model), true};
  const fs::path folder = root_ / wanted;
  if (!check_real_folders(home_, folder)) return std::nullopt;
  const auto text = read_file(folder / kManifestName, kMaxManifestBytes);
  if (!text) return std::nullopt;
  auto manifest = parse_manifest(*text, folder);
  if (!manifest) return std::nullopt;
  // Of a refused model no digest says what a file is: the one on record is just what it is not.
  if (manifest->refused) manifest->model.sha256.clear();
  return Recorded{std::move(manifest->model), false};
}

Integrity ModelStore::check(const InstalledModel& model) const {
  if (model.read_only)
    return shared_ && shared_->is_known(model.id) ? Integrity::unchanged : Integrity::changed;
  bool hashed = true;
  for (const fs::path& file : model.files) {
    const std::string name = manifest_name(file, is_external(model));
    const auto recorded = model.stamps.find(name);
    const auto now = stamp_file(file);
    if (!now || (recorded != model.stamps.end() && recorded->second != *now)) return Integrity::changed;
    hashed = hashed && recorded != model.stamps.end() && model.sha256.contains(name);
  }
  return hashed ? Integrity::unchanged : Integrity::unverified;
}

Result<> ModelStore::verify(const InstalledModel& model, const std::function<bool(Bytes)>& progress) {
  if (model.read_only) {
    if (!shared_) return model_invalid(model.id, "the machine's store is not there any more");
    GEZEL_CHECK(shared_->find(model.id, progress));
    return {};
  }
  GEZEL_TRY(const std::vector<FileStamp> before, stamp_all(model.files));
  GEZEL_TRY(const std::vector<std::string> sha256, hash_all(model.files, progress));
  GEZEL_TRY(const std::vector<FileStamp> after, stamp_all(model.files));
  if (before != after) {
    return fail(
        ErrorKind::conflict, "model_changing",
        fmt::format("a file of the model \"{}\" changed while it was read; try again when it is complete",
                    model.id),
        "model");
  }

  const std::lock_guard lock(mutex_);
  // Imported anew, checked by someone else or deleted meanwhile: then this result is about files of the past.
  const fs::path folder = root_ / model.id;
  GEZEL_CHECK(check_real_folders(home_, folder));
  GEZEL_TRY(const std::string text, read_file(folder / kManifestName, kMaxManifestBytes));
  GEZEL_TRY(Manifest manifest, parse_manifest(text, folder));
  if (manifest.model.installed_at != model.installed_at || manifest.model.files != model.files) {
    return fail(ErrorKind::conflict, "model_changing",
                fmt::format("the model \"{}\" was imported again while it was checked", model.id), "model");
  }
  const auto refusal = find_difference(manifest.model, after, sha256);
  if (refusal) {
    record_refusal(manifest.members, *refusal, iso_time(clock_.wall_now()));
  } else {
    record_digests(manifest.members, is_external(model), model.files, after, sha256);
  }
  GEZEL_CHECK(write_file_atomic(folder / kManifestName, to_json(manifest.members) + "\n", manifest_mode()));
  open_to_all(model.id);
  if (refusal) return model_invalid(model.id, refusal_text(*refusal, false));
  return {};
}

void ModelStore::recover() {
  std::optional<Doomed> doomed;
  {
    const std::lock_guard lock(mutex_);
    doomed.emplace(*this, recover_publishes(home_, root_, importing_, entropy_));
    // An end between publish and opening, of an older version, must not leave one closed for good.
    if (own_machine_) {
      for (const std::string& id : ids()) open_to_all(id);
    }
  }
  doomed->remove();
}

}  // namespace gezel::models
