// system/cpu_share.h
//
// How much of the processors other programs use, for good-neighbour mode.
//
// Two readings some seconds apart give the share: what was busy, less what our own processes used. Looked at
// are the processors that this process may run on and, where a control group limits its share of them, that
// group: the worse of the two counts.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace gezel::system {

// Clock ticks since the machine started.
struct CpuTimes {
  std::uint64_t total = 0;  // of all processors that this process may run on, idle time included
  std::uint64_t busy = 0;
  std::uint64_t own = 0;  // of the processes that were asked for, and of their children that have ended
  int cpus = 1;           // that `total` counts
  struct Group {
    std::uint64_t used = 0;
    int cpus = 1;  // its quota
  };
  std::optional<Group> group;  // that limits the processors of this process
};

// `pids` are ours: this process and its workers. One that is gone counts 0; where it was a child of this
// process, its time is part of this process's by then. Nothing when the machine does not say. `root` stands
// for "/" in tests.
std::optional<CpuTimes> read_cpu_times(std::span<const int> pids, const std::filesystem::path& root = "/");

// Of the processors that this process may use, 0 to 1000; nothing when no time passed between the two.
std::optional<int> others_permille(const CpuTimes& before, const CpuTimes& after);

}  // namespace gezel::system
