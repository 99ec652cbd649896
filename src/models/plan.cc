#include "models/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "catalog/grammar.h"
#include "downloads/url.h"
#include "models/ids.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

using catalog::Backend;

constexpr std::size_t kMaxPlanFiles = 4096;

std::unexpected<Error> bad_plan(std::string message, std::string param) {
  return fail(ErrorKind::invalid, "catalog_invalid", std::move(message), std::move(param));
}

// Builds the files of one repository.
class RepositoryFiles {
 public:
  RepositoryFiles(const PlanOptions& options, const std::vector<std::string>& mirrors, std::string repository,
                  std::string revision)
      : repository_(std::move(repository)), revision_(std::move(revision)) {
    bases_.push_back(options.hub.base);
    bases_.insert(bases_.end(), mirrors.begin(), mirrors.end());
    bases_.insert(bases_.end(), options.hub.mirrors.begin(), options.hub.mirrors.end());
  }

  PlannedFile file(const catalog::PinnedFile& pin, FileRole role, std::string name,
                   const std::string& path) const {
    PlannedFile out;
    out.name = std::move(name);
    out.sha256 = pin.sha256;
    out.size_bytes = pin.size_bytes;
    out.role = role;
    for (const auto& base : bases_) {
      std::string url = repository_url(base, repository_, revision_, path);
      if (std::ranges::find(out.urls, url) == out.urls.end()) out.urls.push_back(std::move(url));
    }
    return out;
  }
  // Parts of a split set must be siblings, so sub-directories of the repository are dropped.
  PlannedFile flat(const catalog::PinnedFile& pin, FileRole role) const {
    return file(pin, role, catalog::base_name(pin.name), pin.name);
  }

 private:
  std::string repository_, revision_;
  std::vector<std::string> bases_;
};

void plan_gguf(const catalog::GgufSource& source, const PlanOptions& options, InstallPlan& out) {
  const RepositoryFiles files(options, source.mirrors, source.repository, source.revision);
  for (const auto& pin : source.files) out.files.push_back(files.flat(pin, FileRole::weights));
  if (source.projector && options.include_projector)
    out.files.push_back(files.flat(*source.projector, FileRole::projector));
  if (source.draft) out.files.push_back(files.flat(*source.draft, FileRole::draft));
  out.repository = source.repository;
  out.revision = source.revision;
  out.quantization = source.quantization;
}

void plan_mlx(const catalog::MlxSource& source, const PlanOptions& options, InstallPlan& out) {
  const RepositoryFiles files(options, source.mirrors, source.repository, source.revision);
  for (const auto& pin : source.files) {
    const std::string path = source.folder.empty() ? pin.name : source.folder + "/" + pin.name;
    out.files.push_back(files.file(pin, FileRole::part, pin.name, path));
  }
  out.repository = source.repository;
  out.revision = source.revision;
  out.quantization = source.quantization;
  out.chat_template = source.chat_template;
}

// The last segment of an address' path, decoded only as far as a file name needs: what is odd is left
// encoded.
std::string name_of_url(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const std::size_t scheme = url.find("://");
  const std::size_t slash = url.rfind('/');
  if (slash == std::string_view::npos || (scheme != std::string_view::npos && slash < scheme + 3)) return {};
  return std::string(url.substr(slash + 1));
}

std::string extension_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string() : std::string(name.substr(dot));
}

void plan_media(const catalog::MediaSource& source, InstallPlan& out) {
  for (const auto& file : source.files) {
    PlannedFile next;
    const std::string name = name_of_url(file.url);
    next.name = !file.role.empty() ? file.role + extension_of(name) : name.empty() ? "weights.bin" : name;
    next.urls = {file.url};
    next.sha256 = file.sha256;
    next.size_bytes = file.size_bytes;
    next.role = file.role.empty() ? FileRole::weights : FileRole::auxiliary;
    next.auxiliary_role = file.role;
    out.files.push_back(std::move(next));
  }
  out.quantization = source.quantization;
}

json::object media_members(const catalog::Item& item) {
  static constexpr std::string_view kImage[] = {
      "weightsKind",   "supportsImg2Img", "referenceImages", "editOnly",    "recommendedSteps",
      "cfgScale",      "nativeSize",      "widthRange",      "heightRange", "vaeTiling",
      "stepDistilled", "baseModel",       "render"};
  static constexpr std::string_view kLora[] = {"baseModels", "purpose", "strength", "prompt", "render"};
  json::object out;
  const auto copy = [&](auto& names) {
    for (const auto name : names) {
      if (const auto* value = item.members.if_contains(name)) out[name] = *value;
    }
  };
  if (item.image) {
    copy(kImage);
    out["weightsKind"] = item.image->weights_kind;
    out["baseModel"] = item.image->base_model;
  } else {
    copy(kLora);
  }
  return out;
}

bool is_visible_name(std::string_view name) {
  // Payload is what is neither hidden, nor the manifest, nor a partial download.
  return catalog::is_contained_path(name) && !name.starts_with('.') &&
         name.find("/.") == std::string_view::npos && name != kManifestName && name != "plan.json" &&
         !name.ends_with(".partial");
}

}  // namespace

Bytes InstallPlan::total_bytes() const {
  Bytes out = 0;
  for (const auto& file : files) out += file.size_bytes;
  return out;
}

std::string repository_url(std::string_view base, std::string_view repository, std::string_view revision,
                           std::string_view path) {
  while (base.ends_with('/')) base.remove_suffix(1);
  return fmt::format("{}/{}/resolve/{}/{}?download=true", base, downloads::percent_encoded_path(repository),
                     downloads::percent_encoded(revision.empty() ? "main" : revision),
                     downloads::percent_encoded_path(path));
}

Result<InstallPlan> plan_install(const catalog::Resolved& resolved, Backend backend,
                                 const PlanOptions& options) {
  const catalog::Item& item = *resolved.item;
  const catalog::Version& version = *resolved.version;
  if (!catalog::has_source(backend, version)) {
    const std::string disabled = backend == Backend::mlx && version.mlx ? version.mlx->disabled_reason : "";
    return fail(ErrorKind::invalid, "no_source_for_backend",
                fmt::format("\"{}\" has no {} build{}{}", item.id, to_string(backend),
                            disabled.empty() ? "" : ": ", disabled),
                "model");
  }
  InstallPlan out;
  out.backend = backend;
  out.id = out.catalog_id = item.id;
  out.name = item.name;
  out.source = "catalog";
  out.catalog_version = version.version.text();
  if (item.chat) out.context_window = item.chat->context_window;
  switch (backend) {
    case Backend::llama_cpp:
      plan_gguf(*version.llama_cpp, options, out);
      break;
    case Backend::ds4:
      plan_gguf(version.ds4->gguf, options, out);
      break;
    case Backend::mlx:
      plan_mlx(*version.mlx, options, out);
      break;
    case Backend::sd_cpp:
      plan_media(*version.media, out);
      out.media = media_members(item);
      break;
  }
  GEZEL_CHECK(check_plan(out));
  return out;
}

Result<> check_plan(const InstallPlan& plan) {
  if (!is_store_safe_id(plan.id)) {
    return fail(
        ErrorKind::invalid, "invalid-model-id",
        fmt::format("\"{}\" cannot be a model id: use a letter or digit, then letters, digits, '.', '-' and "
                    "':', at most {} characters",
                    plan.id.substr(0, 200), kMaxIdLength),
        "id");
  }
  if (plan.files.empty() || plan.files.size() > kMaxPlanFiles)
    return bad_plan(
        fmt::format("\"{}\" has {} files; it must have 1 to {}", plan.id, plan.files.size(), kMaxPlanFiles),
        "files");
  std::set<std::string> names;
  for (const auto& file : plan.files) {
    const bool flat = plan.backend != Backend::mlx;
    if (!is_visible_name(file.name) || (flat && file.name.find('/') != std::string::npos))
      return bad_plan(fmt::format("\"{}\" has a file \"{}\", which is no plain file name", plan.id,
                                  file.name.substr(0, 200)),
                      "files");
    if (!names.insert(catalog::lowered(file.name)).second)
      return bad_plan(fmt::format("\"{}\" has the file \"{}\" twice", plan.id, file.name), "files");
    if (file.urls.empty()) return bad_plan(fmt::format("the file \"{}\" has no address", file.name), "files");
  }
  return {};
}

}  // namespace gezel::models
