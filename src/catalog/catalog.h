// catalog/catalog.h
//
// All that is known about models before they are on disk, from every source (spec 60 section 3): the user's
// folder, read again on each access so that dropped-in items need no restart, before what is built in. Never
// the network. Blocking where a folder is read; thread-safe.
#pragma once
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "catalog/bundled.h"
#include "catalog/resolve.h"

namespace gezel::catalog {

struct CatalogOptions {
  fs::path user_folder;      // <home>/catalog; "" = none
  fs::path override_folder;  // GEZEL_GILDE_DATA_DIR: replaces what is built in; "" = none
  ServiceLevel service;
  std::span<const BundledFile> bundled = bundled_files();
};

class Catalog {
 public:
  explicit Catalog(CatalogOptions options);

  // The latest version of every item that has one, the user's shadowing others of the same id; sorted by name
  // without regard to case, then by id. An unreadable folder is an error, never a shorter list.
  Result<std::vector<Resolved>> list(Kind kind) const;

  // One item by its exact id: the latest version, or an explicit one. Error `unknown_model` or
  // `unknown_version`.
  Result<Resolved> get(Kind kind, std::string_view id, std::string_view version = {}) const;

  // Section 4. Also finds ids that the listing hides.
  Result<std::string> normalise(std::string_view id, const AliasTable& recorded = {}) const;

  // Of the built-in files; "" when a folder replaces them.
  std::string content_version() const;

 private:
  struct Found {
    ItemPtr item;
    std::string source;
  };
  Result<std::vector<Found>> items(Kind kind) const;
  void log_once(const std::vector<Problem>& problems, std::string_view source) const;
  void log_once(const std::string& message, std::string_view source) const;

  CatalogOptions options_;
  std::vector<ItemPtr> bundled_;
  std::string content_version_;
  // Folders are read at every access; what is wrong in them is said once.
  mutable std::mutex mutex_;
  mutable std::set<std::string> logged_;
};

}  // namespace gezel::catalog
