// catalog/parse.h
//
// Catalog files as text to catalog items (spec 60 sections 2.1 to 2.10). Pure: reading folders is tree.h.
//
// An entry with anything wrong in it is left out whole and named in `problems`; the others are still there.
#pragma once
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "catalog/item.h"

namespace gezel::catalog {

inline constexpr int kSchemaVersion = 1;
inline constexpr std::size_t kMaxEntries = 4096;
inline constexpr std::size_t kMaxVersions = 256;  // of one item

// The packed form: all items of a file, and its LoRAs. Errors: not JSON, another schema version, an unknown
// kind, no entries, or a count that is not theirs.
Result<Parsed> parse_packed(std::string_view text);

// The listing form, index.json: one resolved version each. Error also when it is of another kind.
Result<Parsed> parse_index(std::string_view text, Kind kind);

// One item from its identity and its versions. `entry` names it in problems. Null: it is left out.
ItemPtr parse_item(Kind kind, const json::object& identity, const std::vector<const json::object*>& versions,
                   std::string_view entry, std::vector<Problem>& problems);

}  // namespace gezel::catalog
