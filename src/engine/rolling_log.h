// engine/rolling_log.h
//
// Log files of engines (spec 30 section 3.8.7): <logs>/<engine>-YYYY-MM-DD.log, rolled at 10 MiB to -1, -2,
// ..., deleted after a week. Blocking: callers write from a pool thread, in order. Several writers may share
// a file.
#pragma once
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/files.h"

namespace gezel::engine {

class RollingLog {
 public:
  static constexpr Bytes kRollBytes = 10 * kMiB;
  static constexpr std::chrono::days kKeep{7};

  RollingLog(fs::path folder, std::string engine, Bytes roll_bytes = kRollBytes)
      : folder_(std::move(folder)), engine_(std::move(engine)), roll_bytes_(roll_bytes) {}

  // Appends whole lines. After the first failure nothing is written any more: the engine matters, its log
  // does not.
  void write(std::string_view lines, WallTime now);
  bool broken() const { return broken_; }

 private:
  void open_day(const std::string& day, WallTime now);

  fs::path folder_;
  std::string engine_;
  Bytes roll_bytes_;
  std::string day_;
  bool broken_ = false;
};

}  // namespace gezel::engine
