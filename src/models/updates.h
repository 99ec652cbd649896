// models/updates.h
//
// Whether an installed model has an update, for a row of a listing. Blocking: looks at sizes, may write the
// proven fingerprint into the manifest. Never fails: a check that cannot be made finds no update.
#pragma once
#include "catalog/catalog.h"
#include "models/drift.h"
#include "models/store.h"

namespace gezel::models {

InstalledPayload installed_payload(const InstalledModel& model);

Drift check_update(ModelStore& store, const InstalledModel& model, const catalog::Catalog& catalog,
                   catalog::Backend backend);

}  // namespace gezel::models
