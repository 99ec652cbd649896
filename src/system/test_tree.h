// system/test_tree.h
//
// A made-up machine: a folder that stands for "/" in tests.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "base/test_folder.h"

namespace gezel::system::testing {

class TestTree {
 public:
  const std::filesystem::path& root() const { return folder_.path(); }
  TestTree& file(std::string_view path, std::string_view content) {
    folder_.write(path, content);
    return *this;
  }
  TestTree& link(std::string_view path, std::string_view target) {
    const std::filesystem::path name = root() / path;
    std::filesystem::create_directories(name.parent_path());
    std::filesystem::create_symlink(target, name);
    return *this;
  }

  // Memory in GiB, as /proc/meminfo tells it.
  TestTree& memory(double total, double free, double available) {
    const auto kib = [](double gib) {
      return std::to_string(static_cast<long long>(gib * 1024 * 1024)) + " kB\n";
    };
    return file("proc/meminfo", "MemTotal:       " + kib(total) + "MemFree:  " + kib(free) +
                                    "MemAvailable:   " + kib(available));
  }
  // A version 2 hierarchy whose mount shows `shown` as its root, with this process in `group`.
  TestTree& cgroup2(std::string_view group, std::string_view shown = "/") {
    file("proc/self/cgroup", "0::" + std::string(group) + "\n");
    return file("proc/self/mountinfo",
                "25 1 0:5 / /proc rw - proc proc rw\n40 25 0:39 " + std::string(shown) +
                    " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  // Version 1 hierarchies for memory and processors.
  TestTree& cgroup1(std::string_view group) {
    const std::string path(group);
    file("proc/self/cgroup", "9:name=systemd:/\n4:memory:" + path + "\n2:cpu,cpuacct:" + path + "\n0::/\n");
    return file("proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
  TestTree& cpus(std::string_view online) {
    return file("sys/devices/system/cpu/online", std::string(online) + "\n");
  }

 private:
  TestFolder folder_;
};

inline std::string gib(double value) {
  return std::to_string(static_cast<long long>(value * (1LL << 30))) + "\n";
}

}  // namespace gezel::system::testing
