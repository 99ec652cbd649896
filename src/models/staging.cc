#include "models/staging.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "models/disk.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

constexpr int kMaxEntries = 65536;
constexpr Bytes kMaxPlanBytes = 4 * kMiB;

std::int64_t number_at(const json::object& object, std::string_view key) {
  return int_or(object, key, 0);
}

json::object stamp_members(const FileStamp& stamp) {
  return {{"sizeBytes", static_cast<std::int64_t>(stamp.size)},
          {"mtimeNs", stamp.mtime_ns},
          {"inode", static_cast<std::int64_t>(stamp.inode)}};
}

FileStamp stamp_of(const json::object& members) {
  return {static_cast<Bytes>(number_at(members, "sizeBytes")), number_at(members, "mtimeNs"),
          static_cast<std::uint64_t>(number_at(members, "inode"))};
}

// Nothing: it is not there or no JSON object. That it cannot be read now says nothing about what it says.
Result<std::optional<json::object>> object_in(const fs::path& path) {
  std::error_code error;
  const auto type = fs::symlink_status(path, error).type();
  if (type != fs::file_type::regular && type != fs::file_type::none) return std::nullopt;
  const auto text = read_file(path, kMaxPlanBytes);
  if (!text && (text.error().kind == ErrorKind::not_found || text.error().kind == ErrorKind::too_large))
    return std::nullopt;
  if (!text) return std::unexpected(text.error());
  auto parsed = parse_json(*text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  return std::move(parsed->get_object());
}

// What is said of a file by the plan that left it here: its pin, or where a file without one came from.
using Pins = std::map<std::string, std::string>;

std::string pin_of(const PlannedFile& file) {
  return !file.sha256.empty() ? file.sha256
                              : "from " + (file.urls.empty() ? std::string() : file.urls.front());
}

struct Left {
  Pins pins;
  std::map<std::string, VerifiedFile> verified;
};

Result<Left> left_by(const fs::path& folder) {
  Left out;
  GEZEL_TRY(auto plan, object_in(folder / kPlanName));
  if (!plan) {
    GEZEL_TRY(plan, object_in(folder / kSealedPlanName));
  }
  if (!plan) return out;
  if (const auto* files = object_at(*plan, "files")) {
    for (const auto& [name, pin] : *files) {
      if (const auto* text = pin.if_string()) out.pins.emplace(name, *text);
    }
  }
  if (const auto* files = object_at(*plan, "verified")) {
    for (const auto& [name, value] : *files) {
      if (const auto* members = value.if_object())
        out.verified.emplace(name, VerifiedFile{string_or(*members, "sha256"), stamp_of(*members)});
    }
  }
  return out;
}

void remove_entry(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);  // never follows a link
  if (error)
    log_warn("cannot remove a leftover of an install", {{"path", path.string()}, {"error", error.message()}});
}

// A complete file whose digest a crash kept from being recorded: as a download whose last byte is there it is
// hashed and not fetched again. A second name is that of an installed file, which nothing may write to.
void take_back(const fs::path& path) {
  const fs::path partial = path.string() + std::string(kPartial);
  std::error_code error;
  if (fs::hard_link_count(path, error) != 1 || error || fs::exists(fs::symlink_status(partial, error)))
    return;
  fs::rename(path, partial, error);
  if (error)
    log_warn("a file of an install is fetched again", {{"path", path.string()}, {"error", error.message()}});
}

}  // namespace

FolderSize measure_folder(const fs::path& folder) {
  FolderSize out;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return out;
  int seen = 0;
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end && ++seen <= kMaxEntries;
       it.increment(error)) {
    std::error_code ignored;
    const auto& path = it->path();
    if (!fs::is_regular_file(it->symlink_status(ignored))) continue;
    const auto stamp = stamp_file(path);
    if (!stamp) continue;
    const std::string name = path.filename().string();
    const bool top = it.depth() == 0;
    if (top && name == kManifestName)
      out.has_manifest = true;
    else if (!top || (name != kPlanName && !name.starts_with('.')))
      out.payload_bytes += stamp->size;
    out.has_partial = out.has_partial || name.ends_with(kPartial);
    out.newest_ms = std::max(out.newest_ms, stamp->mtime_ns / 1'000'000);
  }
  return out;
}

bool is_stale(const FolderSize& folder, WallTime now) {
  return !folder.has_manifest && folder.has_partial &&
         unix_millis(now) - folder.newest_ms > kStaleAfter.count();
}

Result<StagingPlan> StagingPlan::prepare(const fs::path& home, const fs::path& root,
                                         const InstallPlan& plan) {
  GEZEL_CHECK(check_plan(plan));
  StagingPlan out;
  out.folder_ = root / kIncoming / plan.id;
  GEZEL_CHECK(check_real_folders(home, out.folder_));
  GEZEL_CHECK(make_private_folder(out.folder_));

  GEZEL_TRY(const Left left, left_by(out.folder_));
  std::map<std::string, std::string> wanted;
  json::object files;
  for (const auto& file : plan.files) {
    wanted.emplace(file.name, pin_of(file));
    files[file.name] = pin_of(file);
  }
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(out.folder_, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error) return std::unexpected(errno_error(fmt::format("list {}", out.folder_.string()), error.value()));
  for (const auto& path : entries) {
    std::string name = path.filename().string();
    std::error_code ignored;
    const bool plain = fs::is_regular_file(fs::symlink_status(path, ignored));
    if (plain && name == kPlanName) continue;
    if (name.ends_with(kPartial)) name.resize(name.size() - kPartial.size());
    const auto want = wanted.find(name);
    const auto had = left.pins.find(name);
    const auto verified = left.verified.find(name);
    const bool same = want != wanted.end() && had != left.pins.end() && had->second == want->second;
    if (!plain || !same) {
      remove_entry(path);
      continue;
    }
    if (verified != left.verified.end())
      out.verified_.insert(*verified);
    else if (path.filename() == name)
      take_back(path);
  }
  out.members_ = {{"schemaVersion", 1}, {"id", plan.id}, {"files", std::move(files)}};
  GEZEL_CHECK(out.save());
  return out;
}

Result<> StagingPlan::save() const {
  json::object members = members_;
  json::object verified;
  for (const auto& [name, file] : verified_) {
    json::object entry = stamp_members(file.stamp);
    entry["sha256"] = file.sha256;
    verified[name] = std::move(entry);
  }
  members["verified"] = std::move(verified);
  return write_file_atomic(folder_ / kPlanName, to_json(members) + "\n");
}

Result<> StagingPlan::seal() const {
  std::error_code error;
  fs::rename(folder_ / kPlanName, folder_ / kSealedPlanName, error);
  if (error)
    return std::unexpected(
        errno_error(fmt::format("rename {}", (folder_ / kPlanName).string()), error.value()));
  return {};
}

Bytes StagingPlan::partial_bytes(const PlannedFile& planned) const {
  const auto stamp = stamp_file(partial(planned));
  return stamp ? stamp->size : 0;
}

std::optional<std::string> StagingPlan::verified(const PlannedFile& planned) const {
  const auto known = verified_.find(planned.name);
  if (known == verified_.end()) return std::nullopt;
  const auto stamp = stamp_file(file(planned));
  if (!stamp || *stamp != known->second.stamp) return std::nullopt;
  return known->second.sha256;
}

Result<> StagingPlan::finish(const PlannedFile& planned, const std::string& sha256) {
  std::error_code error;
  fs::rename(partial(planned), file(planned), error);
  if (error)
    return std::unexpected(errno_error(fmt::format("rename {}", partial(planned).string()), error.value()));
  return record(planned, sha256);
}

Result<> StagingPlan::record(const PlannedFile& planned, const std::string& sha256) {
  GEZEL_TRY(const FileStamp stamp, stamp_file(file(planned)));
  verified_[planned.name] = {sha256, stamp};
  return save();
}

void StagingPlan::drop(const PlannedFile& planned) const {
  std::error_code ignored;
  fs::remove(partial(planned), ignored);
  fs::remove(file(planned), ignored);
}

}  // namespace gezel::models
