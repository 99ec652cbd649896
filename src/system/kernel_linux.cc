#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>

#include "system/cgroup.h"
#include "system/kernel.h"

namespace gezel::system {

int landlock_abi() {
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

bool seccomp_available() {
  const std::uint32_t action = SECCOMP_RET_ERRNO;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

KernelFacts read_kernel(const std::filesystem::path& root) {
  KernelFacts facts;
  utsname names{};
  if (uname(&names) == 0) facts.release = names.release;
  facts.landlock_abi = landlock_abi();
  facts.seccomp = seccomp_available();
  facts.pressure = memory_pressure_file(root);
  return facts;
}

}  // namespace gezel::system
