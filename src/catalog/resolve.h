// catalog/resolve.h
//
// From what somebody wrote to an item and one of its versions (spec 60 sections 2.2, 2.3 and 4). Pure.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/item.h"

namespace gezel::catalog {

// How new this build is, for the floors of items and versions.
struct ServiceLevel {
  std::string level{kContentLevel};
  bool ignore_floors = false;  // GEZEL_IGNORE_MIN_GEZEL_VERSION
};

bool is_yanked(const Item& item, const Version& version);

// An explicit version is found whatever was decided about it since: an installed model must keep resolving.
const Version* find_version(const Item& item, std::string_view version);

// The highest version that is not yanked, not below the item's minimum, and whose floor is met; null when
// there is none or the item's own floor is not met.
const Version* latest_version(const Item& item, const ServiceLevel& service);

// Why latest_version() found nothing, for one line in the log; "" when every version is yanked or needs a
// newer service, which is nobody's mistake.
std::string unresolved_reason(const Item& item, const ServiceLevel& service);

// An item with one version of it.
struct Resolved {
  ItemPtr item;
  const Version* version = nullptr;  // lives in `item`
  std::string source;                // user | bundled | live | override
};

// The flattened manifest: identity, version, the stricter floor and `availableVersions`, newest first.
json::object resolved_manifest(const Resolved& resolved);

// Old id -> id, of ids that installs recorded.
using AliasTable = std::map<std::string, std::string, std::less<>>;

// Section 4: an exact id, else an alias, else the tag of another tool (also without ":latest"), else the text
// itself. Never chains.
std::string resolve_id(std::string_view wanted, std::span<const ItemPtr> items,
                       const AliasTable& recorded = {});

}  // namespace gezel::catalog
