#include "models/updates.h"

#include "base/log.h"

namespace gezel::models {

InstalledPayload installed_payload(const InstalledModel& model) {
  InstalledPayload out{model.catalog_version, model.repository, model.payload_fingerprint, model.sha256, {}};
  for (const auto& file : model.files) {
    if (const auto stamp = stamp_file(file)) out.sizes.emplace(file.filename().string(), stamp->size);
  }
  return out;
}

Drift check_update(ModelStore& store, const InstalledModel& model, const catalog::Catalog& catalog,
                   catalog::Backend backend) {
  // Imports and files of other places are nobody's build but the user's.
  // What the machine supplies cannot be brought up to date from here.
  if (model.catalog_version.empty() || model.read_only) return {};
  const auto kind =
      backend == catalog::Backend::sd_cpp ? catalog::Kind::image_model : catalog::Kind::chat_model;
  const auto latest = catalog.get(kind, model.catalog_id.empty() ? model.id : model.catalog_id);
  if (!latest) return {};
  Drift out = find_drift(installed_payload(model), *latest->version, backend);
  if (!out.record_fingerprint.empty()) {
    if (const auto recorded = store.record_fingerprint(model.id, out.record_fingerprint); !recorded)
      log_warn("a fingerprint was not recorded", {{"model", model.id}, {"reason", recorded.error().message}});
  }
  return out;
}

}  // namespace gezel::models
