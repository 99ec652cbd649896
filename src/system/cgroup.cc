// /proc/self/cgroup says which group we are in, /proc/self/mountinfo where each hierarchy is mounted and
// which of its groups that mount shows as its root. Inside a cgroup namespace both paths are "/", inside a
// plain container the mount's root is our own group; either way the group's folder is mount point + (path -
// mount root).
#include "system/cgroup.h"

#include <algorithm>

#include "system/text_file.h"

namespace gezel::system {
namespace {

namespace fs = std::filesystem;

struct Hierarchy {
  fs::path mount;  // as this process sees it, below the injected root
  fs::path group;  // folder of our group, at or below `mount`
  bool v2 = false;
};

// mountinfo writes blanks and backslashes in paths as octal.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [](char c) { return c >= '0' && c <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) &&
        octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool contains(const std::vector<std::string_view>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

// Our path in the hierarchy of `controller`; version 2 has one hierarchy for all, with an empty controller
// list.
std::optional<std::string> own_group(std::string_view cgroup_file, std::string_view controller) {
  for (std::string_view line : lines(cgroup_file)) {
    const auto first = line.find(':'), second = line.find(':', first == line.npos ? first : first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool match =
        controller.empty() ? controllers.empty() : contains(split(controllers, ','), controller);
    if (match) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// The hierarchy of a version 1 controller, or of version 2 when `controller` is empty.
std::optional<Hierarchy> find_hierarchy(const fs::path& root, std::string_view controller) {
  const auto cgroup_file = read_text(under(root, "/proc/self/cgroup"));
  const auto mounts = read_text(under(root, "/proc/self/mountinfo"));
  if (!cgroup_file || !mounts) return std::nullopt;
  const auto group = own_group(*cgroup_file, controller);
  if (!group) return std::nullopt;
  for (std::string_view line : lines(*mounts)) {
    // id parent device root mountpoint options [optional...] - type source super-options
    const auto fields = words(line);
    const auto dash = std::ranges::find(fields, "-");
    if (dash - fields.begin() < 5 || fields.end() - dash < 4) continue;
    const bool v2 = dash[1] == "cgroup2";
    if (controller.empty() ? !v2 : dash[1] != "cgroup" || !contains(split(dash[3], ','), controller))
      continue;
    const fs::path shown = unescape(fields[3]);
    Hierarchy hierarchy{.mount = under(root, unescape(fields[4])), .v2 = v2};
    hierarchy.group = hierarchy.mount;
    // A group outside of what the mount shows cannot be looked at; the mount's root is then the best that is
    // known.
    const fs::path relative =
        fs::path(*group).lexically_normal().lexically_relative(shown.lexically_normal());
    if (!relative.empty() && *relative.begin() != "..")
      hierarchy.group = (hierarchy.mount / relative).lexically_normal();
    return hierarchy;
  }
  return std::nullopt;
}

// Calls `visit` with our group's folder and every folder around it up to the mount.
template <class Visit>
void walk_up(const Hierarchy& hierarchy, Visit visit) {
  constexpr int kMaxDepth = 64;
  fs::path folder = hierarchy.group;
  if (!folder.has_filename()) folder = folder.parent_path();  // "x/." normalizes to "x/"
  const fs::path mount = hierarchy.mount.lexically_normal();
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    visit(folder);
    if (folder == mount || !folder.has_relative_path()) return;
    folder = folder.parent_path();
  }
}

std::optional<Bytes> read_bytes(const fs::path& path) {
  const auto text = read_text(path);
  return text ? parse_unsigned(*text) : std::nullopt;  // "max" is no number
}

std::optional<int> quota_in_cpus(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<std::int64_t>(*quota / *period, 1, 1'000'000));
}

std::optional<int> read_quota(const Hierarchy& hierarchy, const fs::path& folder) {
  if (!hierarchy.v2) {
    const auto quota = read_text(folder / "cpu.cfs_quota_us"),
               period = read_text(folder / "cpu.cfs_period_us");
    if (!quota || !period) return std::nullopt;
    return quota_in_cpus(parse_integer(*quota), parse_integer(*period));
  }
  const auto text = read_text(folder / "cpu.max");
  if (!text) return std::nullopt;
  const auto parts = words(*text);
  if (parts.size() != 2) return std::nullopt;
  return quota_in_cpus(parse_integer(parts[0]), parse_integer(parts[1]));
}

// Processor time of a group, in microseconds. Version 1 counts it in a hierarchy that may be another one.
std::optional<std::uint64_t> read_used_us(const fs::path& root, const Hierarchy& hierarchy,
                                          const fs::path& folder) {
  if (hierarchy.v2) {
    const auto stat = read_text(folder / "cpu.stat");
    return stat ? number_after(*stat, "usage_usec") : std::nullopt;
  }
  const auto accounts = find_hierarchy(root, "cpuacct");
  if (!accounts) return std::nullopt;
  const auto used_ns =
      read_bytes(accounts->mount / folder.lexically_relative(hierarchy.mount) / "cpuacct.usage");
  return used_ns ? std::optional(*used_ns / 1'000) : std::nullopt;
}

}  // namespace

std::vector<MemoryGroup> memory_groups(const fs::path& root, Bytes physical) {
  std::vector<MemoryGroup> groups;
  for (std::string_view controller : {"", "memory"}) {
    const auto hierarchy = find_hierarchy(root, controller);
    if (!hierarchy) continue;
    walk_up(*hierarchy, [&](const fs::path& folder) {
      const auto limit = read_bytes(folder / (hierarchy->v2 ? "memory.max" : "memory.limit_in_bytes"));
      if (!limit || (physical > 0 && *limit >= physical)) return;  // version 1 says "no limit" as about 2^63
      MemoryGroup group{.limit = *limit};
      group.used = read_bytes(folder / (hierarchy->v2 ? "memory.current" : "memory.usage_in_bytes"));
      const auto stat = read_text(folder / "memory.stat");
      if (stat)
        group.inactive_file =
            number_after(*stat, hierarchy->v2 ? "inactive_file" : "total_inactive_file").value_or(0);
      groups.push_back(group);
    });
  }
  return groups;
}

std::optional<int> cpu_quota(const fs::path& root) {
  std::optional<int> smallest;
  for (std::string_view controller : {"", "cpu"}) {
    const auto hierarchy = find_hierarchy(root, controller);
    if (!hierarchy) continue;
    walk_up(*hierarchy, [&](const fs::path& folder) {
      const auto cpus = read_quota(*hierarchy, folder);
      if (cpus) smallest = std::min(*cpus, smallest.value_or(*cpus));
    });
  }
  return smallest;
}

std::optional<CpuGroup> cpu_group(const fs::path& root) {
  std::optional<CpuGroup> tightest;
  for (std::string_view controller : {"", "cpu"}) {
    const auto hierarchy = find_hierarchy(root, controller);
    if (!hierarchy) continue;
    walk_up(*hierarchy, [&](const fs::path& folder) {
      const auto cpus = read_quota(*hierarchy, folder);
      if (!cpus || (tightest && tightest->cpus <= *cpus)) return;
      if (const auto used = read_used_us(root, *hierarchy, folder)) tightest = CpuGroup{*cpus, *used};
    });
  }
  return tightest;
}

fs::path memory_pressure_file(const fs::path& root) {
  if (const auto hierarchy = find_hierarchy(root, "")) {
    const fs::path own = hierarchy->group / "memory.pressure";
    if (read_text(own)) return own;
  }
  const fs::path machine = under(root, "/proc/pressure/memory");
  return read_text(machine) ? machine : fs::path();
}

}  // namespace gezel::system
