// models/bundle_export.h
//
// An installed model as a bundle. Every file is hashed first, so that the manifest, which comes first, is
// right; then the archive is read piece by piece, and nothing of it is written anywhere. Blocking.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "catalog/catalog.h"
#include "models/bundle.h"
#include "models/store.h"

namespace gezel::models {

struct ExportRequest {
  InstalledModel model;
  json::object catalog;  // the resolved manifest of its catalog entry; empty: there is none
  std::optional<catalog::License> license;
  std::string created_at, created_by;  // ISO time; program and version
};

// The request for a model; its licence and entry are those of the catalog now. Reads the catalog.
ExportRequest export_request(InstalledModel model, const catalog::Catalog& catalog, WallTime created_at,
                             std::string created_by);

class BundleExport {
 public:
  // `progress` gets the bytes hashed and may return false to cancel. Errors: `cancelled`, `model-invalid` for
  // a file that is gone, a link inside the store, or no regular file; io.
  static Result<BundleExport> prepare(const ExportRequest& request,
                                      const std::function<bool(Bytes)>& progress = {});
  BundleExport(BundleExport&&) noexcept;
  ~BundleExport();

  Bytes total_bytes() const;  // of the archive
  const std::string& file_name() const { return file_name_; }
  // At most a MiB; "" after the last one. Error `model_changing` when a file is no longer what was hashed:
  // what came so far is then worth nothing.
  Result<std::string> next();

 private:
  struct State;
  explicit BundleExport(std::unique_ptr<State> state, std::string file_name);
  std::unique_ptr<State> state_;
  std::string file_name_;
};

// "<id>.gezmodel", with '-' for every character that some file system does not have in a name.
std::string bundle_file_name(std::string_view id);

}  // namespace gezel::models
