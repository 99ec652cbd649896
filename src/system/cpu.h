// system/cpu.h
//
// The processors of this machine and how many of them this process may use (spec 20 section 1.2, 30 section
// 5).
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gezel::system {

struct CpuFacts {
  int online = 1;                      // logical CPUs of the machine
  int available = 1;                   // that this process may use: affinity and quota, at least 1
  std::optional<int> container_limit;  // `available` when it is below `online`
  std::string model;                   // "AMD EPYC 9R14"; "" = unknown
  std::vector<std::string>
      features;  // instruction sets that matter for inference, sorted: "avx2", "amx_int8", "dotprod"
};

// CPUs in this thread's affinity mask; 0: the system does not say.
int affinity_cpus();

// `root` stands for "/" and `affinity` for the kernel's answer in tests.
CpuFacts read_cpu(const std::filesystem::path& root = "/",
                  const std::function<int()>& affinity = affinity_cpus);

}  // namespace gezel::system
