// models/ensure.h
//
// What "have this model" means for a model string (spec 60 section 9.1), checked in the order of that
// section: syntax, installed, catalog, source, host. Nothing is started here. Reads the catalog, so it may
// block.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "catalog/backend.h"
#include "catalog/catalog.h"
#include "models/store.h"

namespace gezel::models {

struct Ensured {
  catalog::QualifiedId id;
  bool ready = false;                         // it is installed
  std::optional<catalog::Resolved> resolved;  // else: what to install
};

// `installed` asks any root for an id. Errors: ambiguous_model, unknown_model, no_source_for_backend (names
// the ids that work), unsupported_backend.
Result<Ensured> check_ensure(std::string_view model, const catalog::Catalog& catalog,
                             const catalog::Host& host,
                             const std::function<bool(catalog::Backend, std::string_view id)>& installed);

// Whether a stopped download can be gone on with: its id still has a source for the backend.
bool is_resumable(std::string_view id, catalog::Backend backend, const catalog::Catalog& catalog);

}  // namespace gezel::models
