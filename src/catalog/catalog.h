// catalog/catalog.h
//
// All that is known about models before they are on disk, from every source (spec 60 section 3): the user's
// folder, read again on each access so that dropped-in items need no restart, then what an update brought
// (live.h), looked for on each access too, then what is built in. Never the network. Blocking where a folder
// is read; thread-safe.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "catalog/bundled.h"
#include "catalog/live.h"
#include "catalog/resolve.h"

namespace gezel::catalog {

struct CatalogOptions {
  fs::path user_folder;       // <home>/catalog; "" = none
  fs::path override_folder;   // GEZEL_GILDE_DATA_DIR: replaces what is built in and updates; "" = none
  fs::path live_folder = {};  // <home>/catalog-live; "" = none
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

  // The user's own folder as it is now: how many items of each kind count, and everything that is wrong.
  // Error where it cannot be read.
  struct UserFolder {
    std::size_t items = 0;
    std::vector<Problem> problems;
  };
  Result<UserFolder> check_user_folder() const;

  // Section 4. Also finds ids that the listing hides.
  Result<std::string> normalise(std::string_view id, const AliasTable& recorded = {}) const;

  // Of the built-in files; "" when a folder replaces them.
  std::string content_version() const;
  // What counts besides the user's folder: the version, where it comes from, and for an update the digests of
  // its indexes.
  struct Content {
    std::string version, source;  // bundled | live | override
    std::map<Kind, std::string> sha256;
    std::vector<ItemPtr> items;
  };
  Content content() const;
  const ServiceLevel& service() const { return options_.service; }

 private:
  struct Found {
    ItemPtr item;
    std::string source;
  };
  Result<std::vector<Found>> items(Kind kind) const;
  // What an update brought, as long as that is sound and newer than what is built in; else null.
  std::shared_ptr<const LiveContent> live() const;
  void log_once(const std::vector<Problem>& problems, std::string_view source) const;
  void log_once(const std::string& message, std::string_view source) const;

  CatalogOptions options_;
  std::vector<ItemPtr> bundled_;
  std::string content_version_;
  // Folders are read at every access; what is wrong in them is said once.
  mutable std::mutex mutex_;
  mutable std::set<std::string> logged_;
  mutable std::optional<FileStamp> live_stamp_;  // of current.json when live_ was read
  mutable std::shared_ptr<const LiveContent> live_;
};

}  // namespace gezel::catalog
