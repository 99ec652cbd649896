#include "models/shards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "gguf/split.h"

namespace gezel::models {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr int kMaxFolderEntries = 65536;

std::string lowered(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

bool is_gguf(const fs::path& path) {
  std::error_code ignored;
  return lowered(path.extension().string()) == kExtension && fs::is_regular_file(path, ignored);
}

bool is_projector_name(const fs::path& path) {
  return lowered(path.filename().string()).find("mmproj") != std::string::npos;
}

Result<std::vector<fs::path>> gguf_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> out;
  int seen = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (++seen > kMaxFolderEntries) {
      return fail(ErrorKind::too_large, "too_many_files",
                  fmt::format("{} has more than {} entries; name the model file itself", folder.string(),
                              kMaxFolderEntries),
                  "path");
    }
    if (is_gguf(it->path())) out.push_back(it->path());
  }
  if (error) return std::unexpected(errno_error(fmt::format("list {}", folder.string()), error.value()));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Result<std::vector<fs::path>> gather_parts(const fs::path& any_part) {
  const auto split = gguf::parse_split_name(any_part.filename().string());
  if (!split) return std::vector<fs::path>{any_part};
  if (split->count > kMaxParts) {
    return fail(ErrorKind::invalid, "too_many_parts",
                fmt::format("{} is one of {} parts; at most {} are allowed", any_part.filename().string(),
                            split->count, kMaxParts),
                "path");
  }
  std::vector<fs::path> parts = gguf::shard_paths(any_part);
  std::vector<std::string> missing;
  for (const fs::path& part : parts) {
    std::error_code ignored;
    if (!fs::is_regular_file(part, ignored)) missing.push_back(part.filename().string());
  }
  if (!missing.empty()) {
    return fail(
        ErrorKind::invalid, "missing_parts",
        fmt::format(
            "{} is one of {} parts, and {} not in {}: {}. Put all parts into one folder and try again.",
            any_part.filename().string(), split->count, missing.size() == 1 ? "one is" : "some are",
            any_part.parent_path().string(), fmt::join(missing, ", ")),
        "path");
  }
  return parts;
}

Result<std::vector<fs::path>> model_files_in(const fs::path& folder) {
  GEZEL_TRY(const std::vector<fs::path> files, gguf_files(folder));
  std::vector<fs::path> out;
  std::set<std::pair<std::string, std::uint32_t>> series_seen;
  for (const fs::path& file : files) {
    const std::string name = lowered(file.filename().string());
    if (is_projector_name(file) || name.find("imatrix") != std::string::npos) continue;
    if (const auto split = gguf::parse_split_name(file.filename().string())) {
      if (!series_seen.emplace(split->prefix, split->count).second) continue;
    }
    out.push_back(file);
  }
  return out;
}

std::vector<fs::path> projectors_beside(const fs::path& weights) {
  std::vector<fs::path> out;
  const auto files = gguf_files(weights.parent_path());
  if (!files) return out;
  for (const fs::path& file : *files) {
    if (file != weights && is_projector_name(file)) out.push_back(file);
  }
  return out;
}

}  // namespace gezel::models
