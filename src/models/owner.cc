#include "models/owner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ids.h"
#include "base/json.h"
#include "models/ids.h"
#include "models/manifest.h"

namespace gezel::models {

std::string source_key(const InstallPlan& plan) {
  if (plan.source == kFromUrl) return plan.address;
  return plan.repository_file.empty() ? std::string()
                                      : fmt::format("{}/{}", plan.repository, plan.repository_file);
}

std::string distinct_id(const InstallPlan& plan) {
  constexpr std::size_t kMark = 8;  // of 64 hexadecimal digits
  return marked_id(whole_local_id(plan.name), "-" + sha256_hex(source_key(plan)).substr(0, kMark));
}

std::string free_id(const InstallPlan& plan,
                    const std::function<const InstalledModel*(std::string_view)>& installed) {
  const auto is_this = [&](const InstalledModel* model) {
    return model != nullptr && is_same_source(*model, plan);
  };
  std::string distinct = distinct_id(plan);
  if (is_this(installed(distinct))) return distinct;
  const auto* there = installed(plan.id);
  return there == nullptr || is_this(there) ? plan.id : distinct;
}

bool is_same_source(const InstalledModel& model, const InstallPlan& plan) {
  if (model.source != plan.source || model.repository != plan.repository || plan.files.empty()) return false;
  if (plan.source == kFromUrl) return model.address == plan.address;
  return model.repository_file.empty() || plan.repository_file.empty()
             ? model.weights.filename().string() == fs::path(plan.files.front().name).filename().string()
             : model.repository_file == plan.repository_file;
}

bool has_files_of(const InstalledModel& model, const InstallPlan& plan) {
  return is_same_source(model, plan) && std::ranges::all_of(plan.files, [&](const PlannedFile& file) {
           const auto digest = model.sha256.find(file.name);
           if (digest == model.sha256.end()) return false;
           if (!file.sha256.empty()) return digest->second == file.sha256;
           if (plan.source != kFromUrl) return model.revision == plan.revision;
           const auto stamp = model.stamps.find(file.name);
           return file.size_bytes == 0 ||
                  (stamp != model.stamps.end() && stamp->second.size == file.size_bytes);
         });
}

Result<> check_owner(const InstalledModel& installed, const InstallPlan& plan) {
  const std::string &source = installed.source, &repository = installed.repository;
  const bool ours = source != "external" && source != "import";
  // A bundle carries a model of the catalog from one machine to another; it is updated like any other.
  const bool bundled =
      source == "bundle" && !plan.catalog_id.empty() && installed.catalog_id == plan.catalog_id;
  const bool catalog = plan.source == "catalog" && (source == "catalog" || bundled);
  if (ours && (catalog || is_same_source(installed, plan))) return {};
  const std::string origin = !ours                 ? "imported"
                             : !repository.empty() ? "from " + repository
                             : source == kFromUrl  ? "from another address"
                                                   : "from " + source;
  return fail(ErrorKind::conflict, "model_exists",
              fmt::format("the id \"{}\" is taken by another model ({}); delete that one, or give another id",
                          plan.id, origin),
              "id");
}

Result<> check_odd_manifest(const fs::path& manifest, const InstallPlan& plan) {
  const auto text = read_file(manifest, kMaxManifestBytes);
  std::error_code ignored;
  const bool absent = !fs::exists(fs::symlink_status(manifest, ignored));  // a link to nowhere is there
  if (!text && text.error().kind == ErrorKind::not_found && absent) return {};
  const auto parsed = text ? parse_json(*text) : Result<json::value>(std::unexpected(text.error()));
  if (!parsed || !parsed->is_object()) {
    return fail(
        ErrorKind::conflict, "model_exists",
        fmt::format("the id \"{}\" is taken by a model whose manifest cannot be read; repair or delete "
                    "that one, or give another id",
                    plan.id),
        "id");
  }
  const auto& members = parsed->get_object();
  InstalledModel owner;
  owner.source = string_or(members, "source", "catalog");
  owner.repository = string_or(members, "huggingfaceRepo");
  owner.repository_file = string_or(members, "huggingfaceFile");
  owner.weights = string_or(members, "weightsFilename");
  owner.address = string_or(members, "downloadUrl");
  return check_owner(owner, plan);
}

}  // namespace gezel::models
