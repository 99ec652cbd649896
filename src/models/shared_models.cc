#include "models/shared_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "models/disk.h"
#include "models/ids.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

constexpr std::size_t kMaxModels = 4096;
constexpr Bytes kMaxMemoryBytes = 16 * kMiB;

std::unexpected<Error> invalid(const std::string& id, std::string_view why) {
  return fail(ErrorKind::corrupt, "model-invalid",
              fmt::format("the machine's model \"{}\" cannot be used: {}", id, why), "model");
}

// Payload files by name; an error for what is neither a file nor allowed to be there.
Result<std::vector<std::string>> payload_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') || name.ends_with(".partial") || name == kManifestName) continue;
    std::error_code ignored;
    if (!fs::is_regular_file(it->symlink_status(ignored)))
      return fail(ErrorKind::corrupt, "model-invalid", fmt::format("{} is not a regular file", name));
    out.push_back(name);
  }
  if (error) return std::unexpected(errno_error(fmt::format("list {}", folder.string()), error.value()));
  std::ranges::sort(out);
  return out;
}

std::int64_t millis_of(const FileStamp& stamp) {
  return stamp.mtime_ns / 1'000'000;
}

}  // namespace

Error read_only_model(std::string_view id) {
  return {
      ErrorKind::conflict, "read-only-model",
      fmt::format(
          "\"{}\" is supplied by this machine's own model store, which cannot be changed from here; install "
          "a copy of your own to replace it (`gezel pull {} --copy`)",
          id, id),
      "model"};
}

SharedModels::SharedModels(fs::path root, fs::path memory)
    : root_(std::move(root)), memory_path_(std::move(memory)) {}

bool SharedModels::supplies(std::string_view id) const {
  std::error_code ignored;
  return is_store_safe_id(id) && fs::is_regular_file(fs::symlink_status(root_ / id / kManifestName, ignored));
}

void SharedModels::load_memory() {
  if (std::exchange(loaded_, true)) return;
  const auto text = read_file(memory_path_, kMaxMemoryBytes);
  const auto parsed = text ? parse_json(*text) : Result<json::value>(json::value());
  if (!parsed || !parsed->is_object()) return;
  for (const auto& [path, value] : parsed->get_object()) {
    const auto* members = value.if_object();
    if (members == nullptr) continue;
    Known known;
    known.sha256 = string_or(*members, "sha256");
    known.device = static_cast<std::uint64_t>(int_or(*members, "dev", 0));
    known.stamp.inode = static_cast<std::uint64_t>(int_or(*members, "ino", 0));
    known.stamp.size = static_cast<Bytes>(int_or(*members, "size", 0));
    known.stamp.mtime_ns = int_or(*members, "mtimeMs", 0) * 1'000'000;
    memory_.emplace(path, std::move(known));
  }
}

void SharedModels::save_memory() const {
  json::object out;
  for (const auto& [path, known] : memory_) {
    out[path] = json::object{{"dev", static_cast<std::int64_t>(known.device)},
                             {"ino", static_cast<std::int64_t>(known.stamp.inode)},
                             {"size", static_cast<std::int64_t>(known.stamp.size)},
                             {"mtimeMs", millis_of(known.stamp)},
                             {"sha256", known.sha256}};
  }
  if (const auto made = make_private_folder(memory_path_.parent_path()); !made) return;
  if (const auto saved = write_file_atomic(memory_path_, to_json(out) + "\n", 0600, false); !saved)
    log_warn("verified models of this machine are not remembered", {{"error", saved.error().message}});
}

bool SharedModels::Known::same_file(const Known& other) const {
  return device == other.device && stamp.inode == other.stamp.inode && stamp.size == other.stamp.size &&
         millis_of(stamp) == millis_of(other.stamp);
}

Result<InstalledModel> SharedModels::promised(const std::string& id) const {
  const fs::path folder = root_ / id;
  GEZEL_CHECK(check_real_folders(root_, folder));
  GEZEL_TRY(const std::string text, read_file(folder / kManifestName, kMaxManifestBytes));
  GEZEL_TRY(Manifest manifest, parse_manifest(text, folder));
  InstalledModel& model = manifest.model;
  model.read_only = true;
  if (model.source == "external") return invalid(id, "it refers to files elsewhere");
  if (model.sha256.empty()) return invalid(id, "its manifest has no fileSha256");
  const auto present = payload_in(folder);
  if (!present && present.error().code == "model-invalid") return invalid(id, present.error().message);
  if (!present) return std::unexpected(present.error());
  std::vector<std::string> expected;
  for (const auto& [name, digest] : model.sha256) expected.push_back(name);
  if (*present != expected) return invalid(id, "its files are not those that its manifest lists");
  for (const auto& file : model.files) {
    if (!model.sha256.contains(file.filename().string()))
      return invalid(id, fmt::format("its manifest has no digest of {}", file.filename().string()));
  }
  return std::move(model);
}

std::optional<Result<>> SharedModels::recall(const std::string& id, const fs::path& file, const Known& now) {
  const std::lock_guard lock(mutex_);
  load_memory();
  const std::string path = file.string();
  if (const auto good = memory_.find(path);
      good != memory_.end() && good->second.sha256 == now.sha256 && good->second.same_file(now))
    return Result<>();
  // Nor is a file read again that was found to be another, until it changes.
  if (const auto bad = wrong_.find(path);
      bad != wrong_.end() && bad->second.same_file(now) && bad->second.sha256 != now.sha256) {
    return invalid(id, fmt::format("its file {} has SHA-256 {}, its manifest says {}",
                                   file.filename().string(), bad->second.sha256, now.sha256));
  }
  return std::nullopt;
}

Result<InstalledModel> SharedModels::verify(const std::string& id,
                                            const std::function<bool(Bytes)>& progress) {
  GEZEL_TRY(InstalledModel model, promised(id));
  bool learned = false;
  Bytes before = 0;
  for (const auto& [name, digest] : model.sha256) {
    const fs::path file = root_ / id / name;
    Known now{.sha256 = digest, .stamp = {}, .device = 0};
    GEZEL_TRY(now.stamp, stamp_file(file));
    GEZEL_TRY(now.device, device_of(file));
    model.size_bytes += now.stamp.size;
    if (const auto known = recall(id, file, now)) {
      GEZEL_CHECK(*known);
      continue;
    }
    GEZEL_TRY(const std::string actual,
              sha256_file(file, [&](Bytes bytes) { return !progress || progress(before + bytes); }));
    before += now.stamp.size;
    const std::lock_guard lock(mutex_);
    if (actual != digest) {
      memory_.erase(file.string());
      wrong_[file.string()] = {actual, now.stamp, now.device};
      return invalid(id,
                     fmt::format("its file {} has SHA-256 {}, its manifest says {}", name, actual, digest));
    }
    memory_[file.string()] = std::move(now);
    learned = true;
  }
  if (learned) {
    const std::lock_guard lock(mutex_);
    save_memory();
  }
  return model;
}

Result<InstalledModel> SharedModels::find(std::string_view id, const std::function<bool(Bytes)>& progress) {
  if (!supplies(id))
    return fail(ErrorKind::not_found, "model_not_found",
                fmt::format("the model \"{}\" is not installed", id.substr(0, 200)), "model");
  const std::string name(id);
  {
    std::unique_lock lock(mutex_);
    load_memory();
    // What the other one finds is remembered, so that nothing is read twice.
    verified_.wait(lock, [&] { return !verifying_.contains(name); });
    verifying_.insert(name);
  }
  auto model = verify(name, progress);
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    verifying_.erase(name);
    news = !model && model.error().kind != ErrorKind::cancelled && logged_.insert(name).second;
  }
  verified_.notify_all();
  if (news)
    log_warn("a model of this machine is not offered", {{"model", name}, {"reason", model.error().message}});
  // What the system says names paths of the machine, which are for its log and not for clients.
  if (!model && model.error().kind != ErrorKind::cancelled && model.error().code != "model-invalid")
    return invalid(name, "its files cannot be read by this user; ask who looks after this machine");
  return model;
}

std::vector<std::string> SharedModels::ids() const {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator it(root_, error);
  for (const fs::directory_iterator end; !error && it != end && out.size() < kMaxModels;
       it.increment(error)) {
    if (std::string name = it->path().filename().string(); supplies(name)) out.push_back(std::move(name));
  }
  std::ranges::sort(out);
  return out;
}

std::vector<InstalledModel> SharedModels::known(bool* unread) {
  std::vector<InstalledModel> out;
  for (const auto& id : ids()) {
    auto model = promised(id);
    if (!model) continue;
    bool all = true;
    for (const auto& [name, digest] : model->sha256) {
      const fs::path file = root_ / id / name;
      const auto stamp = stamp_file(file);
      const auto device = device_of(file);
      if (!stamp || !device) {
        all = false;
        break;
      }
      model->size_bytes += stamp->size;
      const auto known = recall(id, file, {digest, *stamp, *device});
      if (unread != nullptr && !known) *unread = true;
      all = all && known && known->has_value();
    }
    if (all) out.push_back(std::move(*model));
  }
  std::ranges::sort(
      out, [](const auto& a, const auto& b) { return std::tie(a.name, a.id) < std::tie(b.name, b.id); });
  return out;
}

bool SharedModels::is_known(std::string_view id) {
  const auto all = known();
  return std::ranges::any_of(all, [&](const auto& model) { return model.id == id; });
}

std::vector<InstalledModel> SharedModels::list(const std::function<bool(Bytes)>& progress) {
  std::vector<InstalledModel> out;
  for (const auto& id : ids()) {
    auto model = find(id, progress);
    if (model) {
      out.push_back(std::move(*model));
    } else if (model.error().kind == ErrorKind::cancelled) {
      break;
    }
  }
  std::ranges::sort(
      out, [](const auto& a, const auto& b) { return std::tie(a.name, a.id) < std::tie(b.name, b.id); });
  return out;
}

}  // namespace gezel::models
