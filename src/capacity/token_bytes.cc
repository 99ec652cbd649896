#include "capacity/token_bytes.h"

#include <algorithm>

namespace gezel::capacity {
namespace {

bool has_tensor(const gguf::Metadata& metadata, std::string_view name) {
  return std::ranges::find(metadata.tensors, name, &gguf::Tensor::name) != metadata.tensors.end();
}

// Where a file has no output matrix, the embeddings are it, and every token reads them whole.
bool is_looked_up(const gguf::Metadata& metadata, std::string_view name) {
  if (name == "token_embd.weight") return has_tensor(metadata, "output.weight");
  return name == "per_layer_token_embd.weight" || name == "position_embd.weight" ||
         name == "token_types.weight";
}

// Of the tables, what a token does not read.
Bytes unread(const gguf::Metadata& metadata) {
  Bytes out = 0;
  for (const auto& tensor : metadata.tensors) {
    if (!is_looked_up(metadata, tensor.name)) continue;
    out += tensor.bytes - tensor.bytes / std::max<std::uint64_t>(1, tensor.shape[1]);
  }
  return out;
}

// Of all experts, those of one token.
Bytes used_experts(const gguf::Metadata& metadata) {
  const Bytes all = metadata.tensor_sizes.expert_bytes_total;
  const auto count = metadata.geometry.expert_count.value_or(0);
  const auto used = metadata.geometry.expert_used_count.value_or(count);
  if (count == 0 || used >= count) return all;
  return static_cast<Bytes>(static_cast<unsigned __int128>(all) * used / count);
}

Bytes cache_bytes(const KvGeometry& geometry, KvType type, Tokens depth) {
  const auto cells = static_cast<std::uint64_t>(std::max<Tokens>(0, depth));
  const auto windowed = std::min(cells, static_cast<std::uint64_t>(std::max<Tokens>(0, geometry.window)));
  return kv_element_bytes(geometry.global_elements, type) * cells +
         kv_element_bytes(geometry.windowed_elements, type) * windowed + geometry.recurrent_bytes;
}

}  // namespace

TokenBytes token_bytes(const gguf::Metadata& metadata, KvType type, Tokens depth) {
  const Bytes dense = metadata.tensor_sizes.non_expert_bytes;
  TokenBytes out{.weights = dense - std::min(dense, unread(metadata)) + used_experts(metadata)};
  if (const auto geometry = kv_geometry(metadata)) out.cache = cache_bytes(*geometry, type, depth);
  return out;
}

}  // namespace gezel::capacity
