// cli/bundle_file.h
//
// A model of the store as a .gezmodel file.
#pragma once
#include "catalog/catalog.h"
#include "cli/environment.h"
#include "cli/printer.h"
#include "models/store.h"

namespace gezel::cli {

// For what reads whole files: shows how far it is, and ends at Ctrl-C.
std::function<bool(Bytes)> hashing_shown(StatusLine& status);

// Every file is hashed, then the archive is written under a name of its own and renamed, so that nobody finds
// half of one. Errors: `insufficient_disk`, those of models::BundleExport, an interruption, io.
Result<> write_bundle(const Environment& env, models::InstalledModel model, const catalog::Catalog& catalog,
                      const fs::path& target, StatusLine& status);

}  // namespace gezel::cli
