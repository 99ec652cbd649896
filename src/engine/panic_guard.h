// engine/panic_guard.h
//
// After a panic of the machine that a GPU driver caused, nothing uses the GPU for a while: the next start
// would likely end in the next panic (spec 30 section 9.3). Looks at the reports that macOS writes; elsewhere
// there are no folders to look into and everything is allowed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"

namespace gezel::engine {

inline constexpr Millis kPanicCooldown{3'600'000};
inline constexpr std::size_t kPanicBytes = 16'384;       // of a report are read
inline constexpr std::size_t kMostPanicReports = 4'096;  // of a folder are looked at

struct PanicGuard {
  std::vector<fs::path> folders;  // none: everything is allowed
  Millis cooldown = kPanicCooldown;
};
// As this system and the variables GEZEL_GPU_PANIC_GUARD ("off") and GEZEL_GPU_PANIC_COOLDOWN_HOURS want it.
// A cooldown that is no positive number is the usual one.
PanicGuard panic_guard(bool macos, const fs::path& user_home, std::string_view guard,
                       std::string_view cooldown_hours);

// What in a report says that a GPU driver was at fault; "": nothing does.
std::string_view gpu_panic_mark(std::string_view report);

struct GpuPanic {
  fs::path report;
  WallTime at;
  std::string mark;
};
// The newest such report within the cooldown. Reads files. What cannot be read is allowed.
std::optional<GpuPanic> recent_gpu_panic(const PanicGuard& guard, WallTime now);

}  // namespace gezel::engine
