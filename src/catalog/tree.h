// catalog/tree.h
//
// The tree form of a catalog (spec 60 section 2.1): <root>/chat-models/<shard>/<id>/manifest.json with
// versions/<semver>/manifest.json below it, where <shard> is the first two characters of the id. Blocking,
// reads only; links are not followed out of their place: an entry that is one is left out.
#pragma once
#include "base/files.h"
#include "base/result.h"
#include "catalog/item.h"

namespace gezel::catalog {

inline constexpr Bytes kMaxManifestBytes = 1 * kMiB;
inline constexpr Bytes kMaxIndexBytes = 16 * kMiB;

// Every item of a kind. index.json is used when it is there and sound, else the folders are walked. No folder
// at all is no items; a folder that cannot be read is an error, never an empty catalog.
Result<Parsed> read_tree(const fs::path& root, Kind kind);

// One item with all its versions from its folder; null when it is not there or was left out (see `problems`).
Result<ItemPtr> read_tree_item(const fs::path& root, Kind kind, std::string_view id,
                               std::vector<Problem>& problems);

}  // namespace gezel::catalog
