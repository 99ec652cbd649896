// system/kernel.h
//
// What the kernel offers for locking a worker down and for noticing memory pressure. One file per operating
// system implements it; where a facility does not exist it is reported as absent.
#pragma once
#include <filesystem>
#include <string>

namespace gezel::system {

// Version of the Landlock interface; 0: the kernel has none or it is switched off.
int landlock_abi();
// Can system calls be filtered by seccomp?
bool seccomp_available();

struct KernelFacts {
  std::string release;  // "6.18.4"
  int landlock_abi = 0;
  bool seccomp = false;
  std::filesystem::path pressure;  // the file that reports memory pressure; empty: none
};

// `root` stands for "/" in tests; system calls always ask the running kernel.
KernelFacts read_kernel(const std::filesystem::path& root = "/");

// "full" when workers can be locked down entirely, else what is missing and how to get it, one sentence per
// gap. A worker's own measures close what older Landlock versions leave open (truncation, devices, signals),
// so any version counts as complete.
std::string sandbox_status(int landlock_abi, bool seccomp);

}  // namespace gezel::system
