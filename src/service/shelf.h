// service/shelf.h
//
// What the catalog offers this machine, in the order of a model list (spec 60 section 6, spec 10 section 8).
// Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "capacity/profile.h"
#include "capacity/rating.h"
#include "catalog/backend.h"
#include "catalog/license.h"
#include "catalog/resolve.h"

namespace gezel::service {

struct ShelfItem {
  std::string id;  // qualified
  std::string name;
  Bytes download_bytes = 0;
  std::int64_t context_window = 0;  // trained tokens, 0 = unknown
  catalog::Capabilities capabilities;
  std::optional<capacity::Rated> rated;  // nothing where memory cannot be read
  catalog::License license;
  std::int64_t released = 0;  // seconds since 1970; 0 = unknown
};

// What the catalog says of a model that is installed for llama-cpp.
struct CatalogFacts {
  catalog::Capabilities capabilities;
  bool supports_reasoning = false;
  catalog::License license;
};

struct Shelf {
  std::vector<ShelfItem> items;                                          // best first
  std::map<std::string, CatalogFacts, std::less<>> facts;                // of every item, by catalog id
  std::map<std::string, std::vector<std::string>, std::less<>> aliases;  // by catalog id
  // Of a catalog id or an old name; null = the catalog does not know it.
  const CatalogFacts* find_facts(std::string_view id) const;
  std::string first_choice;  // catalog id of what a first run would take; "" where memory cannot be read
};

Shelf arrange_shelf(const std::vector<catalog::Resolved>& catalog, const catalog::Host& host,
                    const std::optional<capacity::MemoryProfile>& profile);

// {name, shortName, class, url}; "unknown" where nothing is known (spec 60 section 16).
json::object license_json(const catalog::License& license);
json::object capabilities_json(const catalog::Capabilities& capabilities);
// Of GET /v1/models, for a model that can be downloaded.
json::object downloadable_entry(const ShelfItem& item);

}  // namespace gezel::service
