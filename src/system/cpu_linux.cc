#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <thread>

#include "system/cgroup.h"
#include "system/cpu.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

// What ggml's CPU backend can make use of, as /proc/cpuinfo spells it.
constexpr auto kFeatures = std::to_array<std::string_view>({
    "sse3",        "ssse3",       "sse4_1",   "sse4_2",   "avx",      "avx2",     "avx_vnni",   "fma",
    "f16c",        "bmi2",        "avx512f",  "avx512bw", "avx512vl", "avx512dq", "avx512vbmi", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd",    "asimdhp",    "asimddp",
    "i8mm",        "bf16",        "sve",      "sve2",     "sme",
});

// "0-3,8,10-11" -> 7.
int count_list(std::string_view list) {
  int count = 0;
  for (std::string_view part : split(trim(list), ',')) {
    const auto dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == part.npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last - *first > 1'000'000) return 0;
    count += static_cast<int>(*last - *first + 1);
  }
  return count;
}

void read_cpuinfo(std::string_view text, CpuFacts& facts, int& processors) {
  std::set<std::string> found;
  for (std::string_view line : lines(text)) {
    const auto colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string_view key = trim(line.substr(0, colon)), value = trim(line.substr(colon + 1));
    if (key == "processor") ++processors;
    if (key == "model name" && facts.model.empty()) facts.model = value;
    if ((key == "flags" || key == "Features") && found.empty()) {
      for (std::string_view flag : words(value)) {
        if (std::ranges::find(kFeatures, flag) != kFeatures.end()) found.emplace(flag);
      }
    }
  }
  facts.features.assign(found.begin(), found.end());
}

}  // namespace

int affinity_cpus() {
  // The kernel refuses a mask smaller than its own, whose size it does not tell.
  for (int cpus = CPU_SETSIZE; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    if (!set) return 0;
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    CPU_ZERO_S(size, set);
    const int result = sched_getaffinity(0, size, set);
    const int error = errno;
    const int count = result == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (result == 0 || error != EINVAL) return count;
  }
  return 0;
}

CpuFacts read_cpu(const std::filesystem::path& root, const std::function<int()>& affinity) {
  CpuFacts facts;
  int processors = 0;
  if (const auto cpuinfo = read_text(under(root, "/proc/cpuinfo"), 16 * kMiB))
    read_cpuinfo(*cpuinfo, facts, processors);
  const auto online = read_text(under(root, "/sys/devices/system/cpu/online"));
  facts.online = online ? count_list(*online) : 0;
  if (facts.online < 1) facts.online = processors;
  if (facts.online < 1) facts.online = static_cast<int>(std::thread::hardware_concurrency());
  facts.online = std::max(facts.online, 1);

  facts.available = facts.online;
  if (const int allowed = affinity(); allowed > 0) facts.available = std::min(facts.available, allowed);
  if (const auto quota = cpu_quota(root)) facts.available = std::min(facts.available, *quota);
  facts.available = std::max(facts.available, 1);
  if (facts.available < facts.online) facts.container_limit = facts.available;
  return facts;
}

}  // namespace gezel::system
