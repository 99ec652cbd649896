#include "capacity/offload.h"

#include <fmt/format.h>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr Bytes kMargin = kGiB, kComputeReserve = 512 * kMiB;

Offload all_experts_in_ram(std::optional<int> layers, std::string why) {
  return {.gpu_layers = layers, .cpu_moe = true, .reason = std::move(why)};
}

}  // namespace

Offload plan_offload(const OffloadInput& input) {
  if (input.vram == 0) return {.reason = "There is no GPU."};
  if (!input.moe) return {.reason = "The engine fits the layers of a dense model itself."};
  if (!input.tensors) {
    if (plus(input.resident, kMargin) <= input.vram) return {.reason = "The whole model fits the GPU."};
    return all_experts_in_ram(kAllLayers,
                              "The model does not fit the GPU, and how large its experts are is not known.");
  }
  const gguf::TensorSizes& tensors = *input.tensors;
  const Bytes overhead = plus(plus(kMargin, kComputeReserve), input.kv);
  const Bytes without_experts = plus(tensors.non_expert_bytes, overhead);
  if (plus(without_experts, tensors.expert_bytes_total) <= input.vram)
    return {.reason = "The whole model fits the GPU."};
  if (without_experts > input.vram)
    return all_experts_in_ram(std::nullopt, "Even without its experts the model does not fit the GPU.");

  const auto experts = [&](int block) -> Bytes {
    const auto& sizes = tensors.expert_bytes_by_layer;
    return static_cast<std::size_t>(block) < sizes.size() ? sizes[static_cast<std::size_t>(block)] : 0;
  };
  const Bytes room = input.vram - without_experts;
  Bytes packed = 0;
  int layers = 0;
  for (int block = input.blocks - 1; block >= 0; --block, ++layers) {
    if (plus(packed, experts(block)) > room) break;
    packed += experts(block);
  }
  if (layers == input.blocks) return {.reason = "The whole model fits the GPU."};
  if (packed == 0) return all_experts_in_ram(kAllLayers, "Beside the layers no expert fits the GPU.");
  return {
      .gpu_layers = kAllLayers,
      .n_cpu_moe = input.blocks - layers,
      .reason = fmt::format("The GPU has room for the experts of {} of {} layers.", layers, input.blocks)};
}

std::optional<Offload> after_out_of_memory(const Offload& failed, const Pinned& pinned) {
  if (pinned.gpu_layers && pinned.cpu_moe && pinned.n_cpu_moe) return std::nullopt;
  if (failed.cpu_moe) {
    if (!failed.gpu_layers) return std::nullopt;
    return all_experts_in_ram(std::nullopt, "The GPU was out of memory with all experts in main memory.");
  }
  if (!failed.n_cpu_moe) return std::nullopt;
  return all_experts_in_ram(kAllLayers, "The GPU was out of memory with some experts in main memory.");
}

}  // namespace gezel::capacity
