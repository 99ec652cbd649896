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
#include "catalog/resolve.h"

namespace gezel::service {

struct ShelfItem {
  std::string id;  // qualified
  std::string name;
  Bytes download_bytes = 0;
  std::int64_t context_window = 0;  // trained tokens, 0 = unknown
  catalog::Capabilities capabilities;
  std::optional<capacity::Rated> rated;  // nothing where memory cannot be read
};

struct Shelf {
  std::vector<ShelfItem> items;  // best first
  // Of every item by catalog id, for models that are installed.
  std::map<std::string, catalog::Capabilities, std::less<>> capabilities;
  std::map<std::string, std::vector<std::string>, std::less<>> aliases;  // by catalog id
};

Shelf arrange_shelf(const std::vector<catalog::Resolved>& catalog, const catalog::Host& host,
                    const std::optional<capacity::MemoryProfile>& profile);

json::object capabilities_json(const catalog::Capabilities& capabilities);
// Of GET /v1/models, for a model that can be downloaded.
json::object downloadable_entry(const ShelfItem& item);

}  // namespace gezel::service
