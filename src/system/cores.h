// system/cores.h
//
// Processor cores behind the logical CPUs that this process may use.
#pragma once
#include <filesystem>
#include <functional>
#include <vector>

namespace gezel::system {

// The logical CPUs of this thread's affinity mask; empty: the system does not say.
std::vector<int> allowed_cpus();

// Cores that the allowed CPUs belong to; 0: the system does not say. `root` stands for "/" in tests.
int physical_cores(const std::filesystem::path& root = "/",
                   const std::function<std::vector<int>()>& allowed = allowed_cpus);

}  // namespace gezel::system
