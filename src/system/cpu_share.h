// system/cpu_share.h
//
// How much of the processors other programs use, for good-neighbour mode.
//
// Two readings some seconds apart give the share: what the machine was busy with, less what
// our own processes used.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace gezel::system {

// Clock ticks since the machine started.
struct CpuTimes {
  std::uint64_t total = 0;  // of all processors, idle time included
  std::uint64_t busy = 0;
  std::uint64_t own = 0;  // of the processes that were asked for
};

// `pids` are ours: this process and its workers. One that is gone counts 0. Nothing when the machine does not
// say. `root` stands for "/" in tests.
std::optional<CpuTimes> read_cpu_times(std::span<const int> pids, const std::filesystem::path& root = "/");

// Of all processors of the machine, 0 to 1000; nothing when no time passed between the two. A worker that
// ended in between makes ours too small: its part then counts as others', once.
std::optional<int> others_permille(const CpuTimes& before, const CpuTimes& after);

}  // namespace gezel::system
