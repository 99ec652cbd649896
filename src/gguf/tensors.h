// gguf/tensors.h
//
// The tensor table: where each tensor lies, whether the table holds together, and how many bytes belong to
// which class.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace gezel::gguf {

inline constexpr std::size_t kMaxTensorNameBytes = 63;
inline constexpr std::uint32_t kMaxTensorDimensions = 4;

struct Tensor {
  std::string name;
  std::uint32_t type = 0;  // ggml_type
  std::array<std::uint64_t, 4> shape{1, 1, 1, 1};
  Bytes offset = 0;  // inside the data section
  Bytes bytes = 0;   // up to the next tensor, padding included
};

// Which command-line knobs of an engine move a tensor: routed experts by --cpu-moe and --n-cpu-moe, dense
// feed-forward matrices by --n-cpu-ffn. Shared experts are neither.
enum class TensorClass { other, routed_expert, dense_ffn };
TensorClass classify_tensor(std::string_view name);
// 7 for "blk.7.attn_q.weight".
std::optional<std::uint64_t> tensor_layer(std::string_view name);

struct TensorSizes {
  Bytes expert_bytes_total = 0;
  Bytes non_expert_bytes = 0;                                          // dense feed-forward bytes included
  std::vector<Bytes> expert_bytes_by_layer, dense_ffn_bytes_by_layer;  // zero-padded to the number of layers
};

// Exact bytes of a tensor by its type and shape; nothing for a type this build does not know.
std::optional<Bytes> exact_tensor_bytes(const Tensor& tensor);

// What is wrong with a table.
struct TableProblem {
  std::string message;      // "tensor X ..."
  Bytes missing_bytes = 0;  // > 0: the table is sound and the file is that much too short
};

// Sets Tensor::bytes from the offsets, and checks that names are unique, that the tensors follow one another
// without gap or overlap, and that `data_bytes` (what the file holds after its header) has room for all of
// them.
std::optional<TableProblem> check_table(std::vector<Tensor>& tensors, Bytes data_bytes,
                                        std::uint64_t alignment);

// Adds the sizes of `tensors`; arrays grow to `layers`.
void add_sizes(TensorSizes& sizes, const std::vector<Tensor>& tensors, std::uint64_t layers);

}  // namespace gezel::gguf
