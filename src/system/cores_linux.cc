#include <fmt/format.h>
#include <sched.h>

#include <set>
#include <string>

#include "system/cores.h"
#include "system/text_file.h"

namespace gezel::system {

std::vector<int> allowed_cpus() {
  // A machine with more CPUs than the plain mask holds is not asked further: there every thread counts.
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  return out;
}

int physical_cores(const std::filesystem::path& root, const std::function<std::vector<int>()>& allowed) {
  // The list of a core's CPUs names the core.
  std::set<std::string> cores;
  for (const int cpu : allowed()) {
    const auto siblings = read_text(
        under(root, fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)));
    if (!siblings) return 0;
    cores.emplace(trim(*siblings));
  }
  return static_cast<int>(cores.size());
}

}  // namespace gezel::system
