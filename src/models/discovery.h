// models/discovery.h
//
// Models that other programs have on this machine (spec 60 section 17.3): looked at, never changed. Blocking;
// the folders are injected, links are not followed out of them, and one that cannot be read hides no other.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "catalog/resolve.h"

namespace gezel::models {

inline constexpr std::size_t kMaxDiscovered = 4096;
inline constexpr int kMaxDiscoveryDepth = 6;
inline constexpr std::size_t kMaxDiscoveryFolders = 65536;  // of one root

// "" = not looked at.
struct DiscoveryRoots {
  fs::path hub;                                    // cache of the hub's own tools
  fs::path llama_cache;                            // flat
  std::vector<fs::path> lm_studio;                 // <publisher>/<repository>/
  fs::path ollama;                                 // manifests/ and blobs/
  std::vector<fs::path> user_folders;              // modelDirs of the configuration
  std::size_t max_folders = kMaxDiscoveryFolders;  // looked into, of each of these
};

// Where those programs keep them. `variable` reads the environment for the composition root; "" = not set.
enum class RootSystem { linux, macos, windows };
DiscoveryRoots discovery_roots(const std::function<std::string(std::string_view)>& variable,
                               const fs::path& home, RootSystem system, std::vector<fs::path> user_folders);

struct DiscoveredModel {
  std::string source;           // huggingface | llama.cpp | lm-studio | ollama | user
  std::vector<fs::path> paths;  // the parts in order
  std::string suggested_id, name;
  Bytes size_bytes = 0;
  std::string architecture, quantization;
  std::int64_t context_window = 0;
  fs::path projector;         // "" = none
  std::string catalog_match;  // the catalog id with the same size and digest; "" = none known
  bool importable = false;
  std::string reason;  // why not
};

// The catalog id of a file of that size and digest, "" = none.
using CatalogMatch = std::function<std::string(Bytes size, std::string_view sha256)>;
CatalogMatch match_catalog(std::vector<catalog::Resolved> items);

// Every row, by source and then by path. Digests are taken from where a program keeps them (names of blobs);
// nothing is hashed here. Ends within one folder's or one file's look once `stop` says so, with what it has.
std::vector<DiscoveredModel> discover(const DiscoveryRoots& roots, const CatalogMatch& match = {},
                                      std::stop_token stop = {});

}  // namespace gezel::models
