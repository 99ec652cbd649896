// capacity/threads.h
//
// How many threads an engine is told to use, if anything (spec 20 section 16.3, spec 30 section 5).
#pragma once
#include <optional>

namespace gezel::capacity {

// Threads that still help when every layer runs on a GPU.
inline constexpr int kGpuResidentThreads = 4;

struct ThreadInput {
  std::optional<int> configured;        // llamaCppThreads
  std::optional<int> per_model;         // the catalog's
  bool gpu_resident = false;            // nothing of the model is computed on the processor
  std::optional<int> available_cpus;    // that this process may use
  bool extra_args_own_threads = false;  // the user's own arguments name a number
  std::optional<int> container_limit;   // CpuFacts::container_limit
};
// The first that is known; nothing leaves the number to the engine. In a container it never is: an engine
// sizes its pool by the machine's cores, not by ours.
std::optional<int> plan_threads(const ThreadInput& input);

// max(1, min(4, available)); 4 where that is unknown.
int gpu_resident_threads(std::optional<int> available_cpus);

}  // namespace gezel::capacity
