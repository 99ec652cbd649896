// system/cgroup.h
//
// The limits that Linux control groups (versions 1 and 2) put on this process. A group is bound by its own
// limits and by those of every group around it, so the walk goes from our group up to where the hierarchy is
// mounted. An absent, unreadable or malformed file means no limit from that source.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace gezel::system {

struct MemoryGroup {
  Bytes limit = 0;
  std::optional<Bytes> used;  // what the group holds now, file cache included
  Bytes inactive_file = 0;    // the part of it that is given back on demand
};

// Every group around this process that limits memory below `physical`, innermost first.
std::vector<MemoryGroup> memory_groups(const std::filesystem::path& root, Bytes physical);

// CPUs by quota, rounded down (a larger pool than the quota spends each period throttled), at least 1;
// nothing: no quota.
std::optional<int> cpu_quota(const std::filesystem::path& root);

// The group around this process that limits its CPUs most, by quota. Nothing: no quota, or the group does not
// tell what it used.
struct CpuGroup {
  int cpus = 1;               // as cpu_quota()
  std::uint64_t used_us = 0;  // by every process of the group since it was made
};
std::optional<CpuGroup> cpu_group(const std::filesystem::path& root);

// The pressure file of our own group, else of the machine; empty: the kernel reports none.
std::filesystem::path memory_pressure_file(const std::filesystem::path& root);

}  // namespace gezel::system
