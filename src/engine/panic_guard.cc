#include "engine/panic_guard.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>

namespace gezel::engine {
namespace {

constexpr std::array<std::string_view, 5> kMarks = {"IOGPUMemory", "IOAccelerator", "AGXAccelerator",
                                                    "completeMemory() prepare count underflow",
                                                    "IOGPUFamily"};
constexpr std::string_view kChip = "AGXG";  // followed by a digit

std::string read_beginning(const fs::path& file) {
  std::string text(kPanicBytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

}  // namespace

PanicGuard panic_guard(bool macos, const fs::path& user_home, std::string_view guard,
                       std::string_view cooldown_hours) {
  PanicGuard out;
  if (!macos || guard == "off") return out;
  const fs::path reports = "Library/Logs/DiagnosticReports";
  out.folders = {"/" / reports};
  if (!user_home.empty()) out.folders.push_back(user_home / reports);
  double hours = 0;
  const char* end = cooldown_hours.data() + cooldown_hours.size();
  const auto [at, error] = std::from_chars(cooldown_hours.data(), end, hours);
  constexpr double kMostHours = 24.0 * 365;
  if (error == std::errc() && at == end && std::isfinite(hours) && hours > 0 && hours <= kMostHours)
    out.cooldown = Millis(static_cast<std::int64_t>(hours * 3'600'000));
  return out;
}

std::string_view gpu_panic_mark(std::string_view report) {
  for (const std::string_view mark : kMarks)
    if (report.contains(mark)) return mark;
  for (auto at = report.find(kChip); at != report.npos; at = report.find(kChip, at + 1)) {
    const auto next = at + kChip.size();
    if (next < report.size() && report[next] >= '0' && report[next] <= '9') return kChip;
  }
  return {};
}

std::optional<GpuPanic> recent_gpu_panic(const PanicGuard& guard, WallTime now) {
  std::optional<GpuPanic> newest;
  for (const fs::path& folder : guard.folders) {
    std::error_code failed;
    std::size_t seen = 0;
    for (fs::directory_iterator it(folder, failed), end; !failed && it != end && seen < kMostPanicReports;
         it.increment(failed), ++seen) {
      const fs::path& file = it->path();
      if (file.extension() != ".panic" && file.extension() != ".ips") continue;
      const auto stamp = stamp_file(file);
      if (!stamp) continue;
      const WallTime at(
          std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(stamp->mtime_ns)));
      if (now - at >= guard.cooldown || (newest && newest->at >= at)) continue;
      if (const auto mark = gpu_panic_mark(read_beginning(file)); !mark.empty())
        newest = GpuPanic{file, at, std::string(mark)};
    }
  }
  return newest;
}

}  // namespace gezel::engine
