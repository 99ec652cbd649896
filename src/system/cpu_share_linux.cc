#include <algorithm>
#include <string>

#include "system/cpu_share.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

// Columns of the "cpu" line of /proc/stat. Guest time is part of user time, and time stolen by a hypervisor
// is neither ours nor another program's.
enum Column : std::size_t { kUser = 1, kNice, kSystem, kIdle, kIoWait, kIrq, kSoftIrq, kSteal };

// User and system time of a process. Its name, in parentheses, may hold anything.
std::uint64_t process_ticks(std::string_view stat) {
  const auto name_end = stat.rfind(')');
  if (name_end == stat.npos) return 0;
  const auto fields = words(stat.substr(name_end + 1));  // from the state, field 3, on
  constexpr std::size_t kUtime = 14 - 3, kStime = 15 - 3;
  if (fields.size() <= kStime) return 0;
  return parse_unsigned(fields[kUtime]).value_or(0) + parse_unsigned(fields[kStime]).value_or(0);
}

}  // namespace

std::optional<CpuTimes> read_cpu_times(std::span<const int> pids, const std::filesystem::path& root) {
  const auto stat = read_text(under(root, "/proc/stat"), 64 * kKiB);
  if (!stat) return std::nullopt;
  const auto all = lines(*stat);
  if (all.empty()) return std::nullopt;
  const auto fields = words(all.front());
  if (fields.size() <= kIoWait || fields[0] != "cpu") return std::nullopt;
  CpuTimes out;
  for (std::size_t column = kUser; column < std::min<std::size_t>(fields.size(), kSteal + 1); ++column) {
    const std::uint64_t ticks = parse_unsigned(fields[column]).value_or(0);
    out.total += ticks;
    if (column != kIdle && column != kIoWait && column != kSteal) out.busy += ticks;
  }
  for (const int pid : pids) {
    const auto text = read_text(under(root, "/proc/" + std::to_string(pid) + "/stat"), 4 * kKiB);
    if (text) out.own += process_ticks(*text);
  }
  return out;
}

std::optional<int> others_permille(const CpuTimes& before, const CpuTimes& after) {
  if (after.total <= before.total) return std::nullopt;
  const std::uint64_t total = after.total - before.total;
  const std::uint64_t busy = after.busy > before.busy ? after.busy - before.busy : 0;
  const std::uint64_t own = after.own > before.own ? after.own - before.own : 0;
  const std::uint64_t others = busy > own ? busy - own : 0;
  return static_cast<int>(std::min<std::uint64_t>(others * 1000 / total, 1000));
}

}  // namespace gezel::system
