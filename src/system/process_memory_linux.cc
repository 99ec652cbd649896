#include <fmt/format.h>

#include "system/process_memory.h"
#include "system/text_file.h"

namespace gezel::system {

std::optional<ProcessMemory> read_process_memory(std::int64_t pid, const std::filesystem::path& proc) {
  const auto text = read_text(proc / fmt::format("{}", pid) / "smaps_rollup");
  if (!text) return std::nullopt;
  const auto anonymous = number_after(*text, "Pss_Anon");
  if (!anonymous) return std::nullopt;
  return ProcessMemory{.anonymous = *anonymous * kKiB,
                       .shared = number_after(*text, "Pss_Shmem").value_or(0) * kKiB,
                       .file = number_after(*text, "Pss_File").value_or(0) * kKiB};
}

}  // namespace gezel::system
