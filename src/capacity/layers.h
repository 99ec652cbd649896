// capacity/layers.h
//
// Which kind of cache each layer of a model has, and the tables of architectures that decide it. Internal to
// the module.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "gguf/metadata.h"

namespace gezel::capacity {

// More layers than any engine accepts are implausible.
inline constexpr std::uint64_t kMaxLayers = 512;

struct LayerKind {
  bool attention = false;
  bool windowed = false;   // of an attention layer
  bool recurrent = false;  // may come beside attention (falcon-h1)
};

struct LayerPlan {
  std::vector<LayerKind> layers;  // those that own a cache
  std::uint64_t window = 0;       // tokens; 0: no layer is windowed
  bool window_layout_known = true;
};

// Nothing when the number of layers is missing or implausible.
std::optional<LayerPlan> plan_layers(const gguf::Metadata& metadata);

// The KV heads of a layer. An engine takes the number of attention heads where the file names no KV heads.
std::optional<std::uint64_t> kv_heads(const gguf::Geometry& geometry, std::uint64_t layer);
// Attention heads, of the first layer that has any.
std::optional<std::uint64_t> attention_heads(const gguf::Geometry& geometry);

}  // namespace gezel::capacity
