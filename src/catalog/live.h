// catalog/live.h
//
// Content that an update brought (spec 60 section 3.1), as it lies in <home>/catalog-live:
//
//   current.json                    {"contentVersion", "kinds": {"chat-model": {"sha256"}, ...}}: what counts
//   <contentVersion>/<kind>/index.json
//
// current.json is replaced last, so that a reader sees the old content or the new. A file that has not the
// digest that current.json names is not used, and nothing of that content counts then. Reads only.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "catalog/item.h"
#include "catalog/resolve.h"

namespace gezel::catalog {

inline constexpr std::string_view kCurrentName = "current.json";
inline constexpr Bytes kMaxDocumentBytes = 5 * kMiB;  // of a pointer document or an index

// The document that says what there is.
struct Pointer {
  struct Index {
    std::size_t count = 0;
    std::string path;    // contained, below base_url
    std::string sha256;  // lower case
  };
  SemVer version;
  std::string published_at, base_url;  // without '/' at its end
  std::map<Kind, Index> kinds;
};
// Errors `catalog_invalid`: not JSON, another schemaVersion, or a member that is not right, by name.
Result<Pointer> parse_pointer(std::string_view text);

// An index, or the packed form of the same kind. Errors as of parse_index().
Result<Parsed> parse_content(std::string_view text, Kind kind);

struct LiveContent {
  std::string version;
  std::map<Kind, std::string> sha256;  // of the indexes
  std::vector<ItemPtr> items;
};
// Errors: `not_found` where there is none, `catalog_invalid`.
Result<LiveContent> read_live(const fs::path& folder);

fs::path live_index(const fs::path& folder, std::string_view version, Kind kind);

// Whether content of that version may take the place of what is built in: same major and minor, and newer.
bool is_eligible(const SemVer& version, std::string_view bundled);

struct ItemName {
  Kind kind = Kind::chat_model;
  std::string id;
  bool operator==(const ItemName&) const = default;
};
// Items that resolve now and would not from `candidate`.
std::vector<ItemName> find_regressions(const std::vector<ItemPtr>& now, const std::vector<ItemPtr>& candidate,
                                       const ServiceLevel& service);

}  // namespace gezel::catalog
