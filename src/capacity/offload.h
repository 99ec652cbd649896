// capacity/offload.h
//
// Which layers and experts of a model go to a GPU (spec 20 section 14), and the way back
// when the GPU refuses.
#pragma once
#include <optional>
#include <string>

#include "base/bytes.h"
#include "gguf/tensors.h"

namespace gezel::capacity {

inline constexpr int kAllLayers = -1;

// What an engine is told; an absent field leaves the matter to its own automatic fit.
struct Offload {
  std::optional<int> gpu_layers;  // kAllLayers: every layer
  bool cpu_moe = false;           // all routed experts stay in main memory
  std::optional<int> n_cpu_moe;   // the experts of the first n layers do
  std::string reason;             // one sentence
  bool operator==(const Offload& other) const {
    return gpu_layers == other.gpu_layers && cpu_moe == other.cpu_moe && n_cpu_moe == other.n_cpu_moe;
  }
};

struct OffloadInput {
  Bytes vram = 0;  // of the largest single device; 0: no GPU
  bool moe = false;
  Bytes resident = 0;
  Bytes kv = 0;  // of all slots; 0: unknown
  std::optional<gguf::TensorSizes> tensors;
  int blocks = 0;
};

// Dense models and models that fit are left to the engine. Of a mixture of experts as many layers' experts as
// fit go to the GPU, counted from the last.
Offload plan_offload(const OffloadInput& input);

// After a GPU ran out of memory at start: some experts in main memory, then all, then all with the layers
// left to the engine, then nothing more to try. Nothing too when user or catalog fixed all three numbers. The
// plan that worked is kept for later starts.
struct Pinned {
  bool gpu_layers = false, cpu_moe = false, n_cpu_moe = false;
};
std::optional<Offload> after_out_of_memory(const Offload& failed, const Pinned& pinned);

}  // namespace gezel::capacity
