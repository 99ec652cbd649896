#include "cli/pull_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gezel::cli {
namespace {

constexpr Millis kWindow{5'000};
// Closer together than an install tells its progress: what is replayed to who joins late comes at once, and
// is no measure of the network.
constexpr Millis kAtOnce{100};
constexpr int kBar = 24;
constexpr int kColumnsForBar = 90;

}  // namespace

void Rate::add(MonotonicTime when, Bytes written) {
  // A file that had to begin again.
  if (!seen_.empty() && written < seen_.back().second) seen_.clear();
  if (!seen_.empty() && when - seen_.back().first < kAtOnce) {
    seen_.back().second = written;
    return;
  }
  seen_.emplace_back(when, written);
  while (seen_.size() > 2 && when - seen_.front().first > kWindow) seen_.pop_front();
}

std::optional<double> Rate::bytes_per_second() const {
  if (seen_.size() < 2) return std::nullopt;
  const std::chrono::duration<double> span = seen_.back().first - seen_.front().first;
  if (span.count() <= 0) return std::nullopt;
  return static_cast<double>(seen_.back().second - seen_.front().second) / span.count();
}

std::string remaining_text(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3'600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3'600, whole / 60 % 60);
}

std::string progress_line(Bytes written, Bytes total, std::optional<double> bytes_per_second, int columns) {
  if (total == 0) return fmt::format("{} downloaded", format_bytes(written));
  written = std::min(written, total);
  // Never 100 % while bytes may still come.
  const auto part = static_cast<double>(written) / static_cast<double>(total);
  std::string line =
      fmt::format("{:3} %", written == total ? 100 : static_cast<int>(std::min(99.0, part * 100)));
  if (columns >= kColumnsForBar) {
    const auto full = static_cast<std::size_t>(part * kBar);
    line += fmt::format(" [{}{}]", std::string(full, '#'), std::string(kBar - full, ' '));
  }
  line += fmt::format("  {} of {}", format_bytes(written), format_bytes(total));
  if (bytes_per_second && *bytes_per_second >= 1 && written < total) {
    line += fmt::format("  {}/s  {} left", format_bytes(static_cast<Bytes>(*bytes_per_second)),
                        remaining_text(static_cast<double>(total - written) / *bytes_per_second));
  }
  return line;
}

}  // namespace gezel::cli
