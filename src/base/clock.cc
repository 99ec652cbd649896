#include "base/clock.h"

#include <fmt/format.h>

#include <ctime>

namespace gezel {

std::int64_t unix_millis(WallTime time) {
  return std::chrono::duration_cast<Millis>(time.time_since_epoch()).count();
}

std::int64_t unix_seconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

std::string iso_time(WallTime time) {
  const std::int64_t millis = unix_millis(time);
  const std::time_t seconds = static_cast<std::time_t>(millis / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, millis % 1000);
}

}  // namespace gezel
