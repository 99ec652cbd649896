#include "models/preflight.h"

#include <fmt/format.h>

#include <algorithm>

namespace gezel::models {

Bytes remaining_bytes(const std::vector<FetchedFile>& files) {
  Bytes out = 0;
  for (const auto& file : files) out += file.size_bytes - std::min(file.size_bytes, file.partial_bytes);
  return out;
}

Bytes required_bytes(Bytes remaining) {
  const Bytes two_percent = remaining / 50 + (remaining % 50 == 0 ? 0 : 1);
  return remaining + std::max(2 * kGiB, two_percent);
}

Result<> check_disk(std::string_view model, Bytes remaining, Bytes others, std::optional<Bytes> free) {
  const Bytes required = required_bytes(remaining + others);
  if (!free || *free >= required) return {};
  const auto gib = [](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); };
  return fail(
      ErrorKind::io, "insufficient_disk",
      fmt::format(
          "\"{}\" needs {:.1f} GiB free on the disk of the model store (with head-room{}), and {:.1f} "
          "GiB are; delete models or other files and install it again",
          model, gib(required), others > 0 ? " and what other installs still write" : "", gib(*free)));
}

}  // namespace gezel::models
