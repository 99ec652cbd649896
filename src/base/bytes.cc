#include "base/bytes.h"

#include <fmt/format.h>

namespace gezel {

std::string format_bytes(Bytes bytes) {
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  const auto value = static_cast<double>(bytes);
  if (bytes < kMiB) return fmt::format("{:.1f} KiB", value / static_cast<double>(kKiB));
  if (bytes < kGiB) return fmt::format("{:.1f} MiB", value / static_cast<double>(kMiB));
  return fmt::format("{:.1f} GiB", value / static_cast<double>(kGiB));
}

}  // namespace gezel
