#include <unistd.h>

#include <algorithm>
#include <string>

#include "system/cgroup.h"
#include "system/cpu_share.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

// Columns of a "cpu" line of /proc/stat. Guest time is part of user time, and time stolen by a hypervisor is
// neither ours nor another program's.
enum Column : std::size_t { kUser = 1, kNice, kSystem, kIdle, kIoWait, kIrq, kSoftIrq, kSteal };

// User and system time of a process and of its ended children. Its name, in parentheses, may hold anything.
std::uint64_t process_ticks(std::string_view stat) {
  const auto name_end = stat.rfind(')');
  if (name_end == stat.npos) return 0;
  const auto fields = words(stat.substr(name_end + 1));  // from the state, field 3, on
  constexpr std::size_t kUtime = 14 - 3, kCstime = 17 - 3;
  if (fields.size() <= kCstime) return 0;
  std::uint64_t ticks = 0;
  for (std::size_t field = kUtime; field <= kCstime; ++field)
    ticks += parse_unsigned(fields[field]).value_or(0);
  return ticks;
}

// Is the processor in a list like "0-3,8"? An empty list has them all.
bool listed(std::string_view list, std::uint64_t cpu) {
  if (list.empty()) return true;
  for (std::string_view part : split(list, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_unsigned(part.substr(0, dash));
    const auto last = dash == part.npos ? first : parse_unsigned(part.substr(dash + 1));
    if (first && last && *first <= cpu && cpu <= *last) return true;
  }
  return false;
}

// The list of processors that this process may run on; "": unknown.
std::string allowed_cpus(const std::filesystem::path& root) {
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  const auto status = read_text(under(root, "/proc/self/status"), 64 * kKiB);
  for (std::string_view line : status ? lines(*status) : std::vector<std::string_view>{}) {
    if (line.starts_with(kKey)) return std::string(trim(line.substr(kKey.size())));
  }
  return {};
}

// Adds a line "cpu3 ..." or "cpu ...".
void add(CpuTimes& times, const std::vector<std::string_view>& fields) {
  for (std::size_t column = kUser; column < std::min<std::size_t>(fields.size(), kSteal + 1); ++column) {
    const std::uint64_t ticks = parse_unsigned(fields[column]).value_or(0);
    times.total += ticks;
    if (column != kIdle && column != kIoWait && column != kSteal) times.busy += ticks;
  }
}

std::uint64_t since(std::uint64_t before, std::uint64_t after) {
  return after > before ? after - before : 0;
}

int permille(std::uint64_t busy, std::uint64_t own, std::uint64_t total) {
  const std::uint64_t others = busy > own ? busy - own : 0;
  return total == 0 ? 0 : static_cast<int>(std::min<std::uint64_t>(others * 1000 / total, 1000));
}

}  // namespace

std::optional<CpuTimes> read_cpu_times(std::span<const int> pids, const std::filesystem::path& root) {
  const auto stat = read_text(under(root, "/proc/stat"));
  if (!stat) return std::nullopt;
  const std::string allowed = allowed_cpus(root);
  CpuTimes out;
  out.cpus = 0;
  CpuTimes whole;  // where no line of a single processor is there
  bool known = false;
  for (std::string_view line : lines(*stat)) {
    const auto fields = words(line);
    if (fields.size() <= kIoWait || !fields[0].starts_with("cpu")) {
      if (known) break;  // the lines of processors come first
      return std::nullopt;
    }
    const auto cpu = parse_unsigned(fields[0].substr(3));
    if (!cpu) {
      known = true;
      add(whole, fields);
    } else if (listed(allowed, *cpu)) {
      ++out.cpus;
      add(out, fields);
    }
  }
  if (!known) return std::nullopt;
  if (out.cpus == 0) out = whole;
  if (const auto group = cpu_group(root)) {
    const auto hertz = static_cast<std::uint64_t>(std::max(1L, sysconf(_SC_CLK_TCK)));
    out.group = CpuTimes::Group{group->used_us / 1'000 * hertz / 1'000, group->cpus};
  }
  for (const int pid : pids) {
    const auto text = read_text(under(root, "/proc/" + std::to_string(pid) + "/stat"), 4 * kKiB);
    if (text) out.own += process_ticks(*text);
  }
  return out;
}

std::optional<int> others_permille(const CpuTimes& before, const CpuTimes& after) {
  if (after.total <= before.total) return std::nullopt;
  const std::uint64_t total = after.total - before.total, own = since(before.own, after.own);
  const int machine = permille(since(before.busy, after.busy), own, total);
  if (!before.group || !after.group) return machine;
  const std::uint64_t share = total / static_cast<std::uint64_t>(std::max(1, after.cpus)) *
                              static_cast<std::uint64_t>(after.group->cpus);
  return std::max(machine, permille(since(before.group->used, after.group->used), own, share));
}

}  // namespace gezel::system
