#include "system/kernel.h"

namespace gezel::system {

std::string sandbox_status(int landlock_abi, bool seccomp) {
  std::string gaps;
  if (landlock_abi < 1) {
    gaps =
        "Workers can read and write every file of this user: the kernel has no Landlock. It needs Linux 5.13 "
        "or later with "
        "\"landlock\" in the lsm= boot option.";
  }
  if (!seccomp) {
    if (!gaps.empty()) gaps += " ";
    gaps +=
        "Workers may use the network and start programs: the kernel has no seccomp filters "
        "(CONFIG_SECCOMP_FILTER).";
  }
  return gaps.empty() ? "full" : gaps;
}

}  // namespace gezel::system
