#include "capacity/threads.h"

#include <algorithm>

namespace gezel::capacity {

int gpu_resident_threads(std::optional<int> available_cpus) {
  return std::max(1, std::min(kGpuResidentThreads, available_cpus.value_or(kGpuResidentThreads)));
}

std::optional<int> plan_threads(const ThreadInput& input) {
  if (input.configured) return input.configured;
  if (input.per_model) return input.per_model;
  if (input.gpu_resident) return gpu_resident_threads(input.available_cpus);
  if (input.extra_args_own_threads) return std::nullopt;
  return input.container_limit;
}

}  // namespace gezel::capacity
