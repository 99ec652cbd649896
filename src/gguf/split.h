// gguf/split.h
//
// Models in several files: "<prefix>-00001-of-00003.gguf", counted from 1 in the name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::gguf {

struct SplitName {
  std::string prefix;        // "model" of "model-00002-of-00003.gguf"
  std::uint32_t number = 0;  // 2: counted from 1
  std::uint32_t count = 0;   // 3
};

// Nothing for a name that does not follow the pattern.
std::optional<SplitName> parse_split_name(std::string_view file_name);

std::string shard_name(const SplitName& name, std::uint32_t number);

// All shards in order, whichever of them `path` is; just `path` for a model in one file.
std::vector<std::filesystem::path> shard_paths(const std::filesystem::path& path);

}  // namespace gezel::gguf
