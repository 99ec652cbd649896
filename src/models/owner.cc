#include "models/owner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "models/manifest.h"

namespace gezel::models {

bool is_same_source(const InstalledModel& model, const InstallPlan& plan) {
  if (model.source != plan.source || model.repository != plan.repository || plan.files.empty()) return false;
  return model.repository_file.empty() || plan.repository_file.empty()
             ? model.weights.filename().string() == fs::path(plan.files.front().name).filename().string()
             : model.repository_file == plan.repository_file;
}

bool has_files_of(const InstalledModel& model, const InstallPlan& plan) {
  return is_same_source(model, plan) && std::ranges::all_of(plan.files, [&](const PlannedFile& file) {
           const auto digest = model.sha256.find(file.name);
           if (digest == model.sha256.end()) return false;
           return file.sha256.empty() ? model.revision == plan.revision : digest->second == file.sha256;
         });
}

Result<> check_owner(const InstalledModel& installed, const InstallPlan& plan) {
  const std::string &source = installed.source, &repository = installed.repository;
  const bool ours = source != "external" && source != "import";
  const bool catalog = plan.source == "catalog" && source == "catalog";
  if (ours && (catalog || is_same_source(installed, plan))) return {};
  return fail(ErrorKind::conflict, "model_exists",
              fmt::format("the id \"{}\" is taken by another model ({}); delete that one, or give another id",
                          plan.id, ours ? "from " + (repository.empty() ? source : repository) : "imported"),
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
  return check_owner(owner, plan);
}

}  // namespace gezel::models
