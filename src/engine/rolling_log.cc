#include "engine/rolling_log.h"

#include <fmt/format.h>

#include <fstream>

#include "base/log.h"

namespace gezel::engine {
namespace {

// Files of this engine that were last written more than a week ago.
void delete_old(const fs::path& folder, const std::string& engine, WallTime now) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(engine + "-") || !name.ends_with(".log")) continue;
    const auto stamp = stamp_file(entry.path());
    if (!stamp) continue;
    const WallTime written{
        std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(stamp->mtime_ns))};
    if (now - written > RollingLog::kKeep) fs::remove(entry.path(), failed);
  }
}

}  // namespace

void RollingLog::open_day(const std::string& day, WallTime now) {
  if (!make_private_folder(folder_)) broken_ = true;
  delete_old(folder_, engine_, now);
  day_ = day;
}

void RollingLog::write(std::string_view lines, WallTime now) {
  if (broken_ || lines.empty()) return;
  const std::string day = iso_time(now).substr(0, 10);
  if (day != day_) open_day(day, now);
  const fs::path path = folder_ / fmt::format("{}-{}.log", engine_, day);
  std::error_code failed;
  if (fs::file_size(path, failed) + lines.size() > roll_bytes_ && !failed) {
    int number = 1;
    const auto rolled = [&] { return folder_ / fmt::format("{}-{}-{}.log", engine_, day, number); };
    while (fs::exists(rolled(), failed)) ++number;
    fs::rename(path, rolled(), failed);
  }
  // Opened for every batch: another engine of the same family may have rolled the file meanwhile.
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << lines << std::flush;
  if (!file && !broken_) {
    broken_ = true;
    log_warn("engine output is no longer written to a file", {{"file", path.string()}});
  }
}

}  // namespace gezel::engine
