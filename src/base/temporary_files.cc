#include "base/temporary_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace gezel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";

}  // namespace

std::string temporary_template(const fs::path& path) {
  return (path.parent_path() / fmt::format(".{}{}XXXXXX", path.filename().string(), kMark)).string();
}

bool is_temporary_name(std::string_view file_name) {
  const std::size_t mark = file_name.rfind(kMark);
  if (!file_name.starts_with('.') || mark == std::string_view::npos || mark < 2) return false;
  const std::string_view end = file_name.substr(mark + kMark.size());
  return !end.empty() &&
         std::ranges::all_of(end, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
}

void remove_old_temporaries(const fs::path& folder, fs::file_time_type before) {
  std::vector<fs::path> old;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (!is_temporary_name(it->path().filename().string()) || !it->is_regular_file(unreadable) ||
        it->is_symlink(unreadable))
      continue;
    if (const auto written = it->last_write_time(unreadable); !unreadable && written < before)
      old.push_back(it->path());
  }
  for (const auto& path : old) fs::remove(path, error);
}

}  // namespace gezel
