// Sizes come from the distance between offsets, so that formats this build has never heard of are measured
// too. The table of element sizes serves only to notice damage: a wrong offset, or a file that ends before
// its last tensor.
#include "gguf/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

namespace gezel::gguf {
namespace {

// Per-layer sums are kept for this many layers; no engine has more.
constexpr std::uint64_t kMaxLayers = 512;

struct TypeSize {
  std::uint32_t type;
  std::uint32_t elements, bytes;  // of one block
};

// ggml_type -> block (ggml-common.h).
constexpr auto kTypeSizes = std::to_array<TypeSize>({
    {0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {6, 32, 22},    {7, 32, 24},
    {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176},
    {14, 256, 210}, {15, 256, 292}, {16, 256, 66}, {17, 256, 74},  {18, 256, 98},  {19, 256, 50},
    {20, 32, 18},   {21, 256, 110}, {22, 256, 82}, {23, 256, 136}, {24, 1, 1},     {25, 1, 2},
    {26, 1, 4},     {27, 1, 8},     {28, 1, 8},    {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
    {35, 256, 66},  {39, 32, 17},   {40, 64, 36},  {41, 128, 18},  {42, 64, 18},
});

constexpr Bytes kUnrepresentable = std::numeric_limits<Bytes>::max();

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes,
                     std::size_t& length) {
  for (std::string_view prefix : prefixes) {
    if (text.starts_with(prefix)) {
      length = prefix.size();
      return true;
    }
  }
  return false;
}

}  // namespace

TensorClass classify_tensor(std::string_view name) {
  constexpr std::string_view kMarker = ".ffn_";
  for (auto at = name.find(kMarker); at != name.npos; at = name.find(kMarker, at + 1)) {
    const std::string_view rest = name.substr(at + kMarker.size());
    std::size_t length = 0;
    if (starts_with_any(rest,
                        {"gate_up_exps", "gate_up_chexps", "up_exps", "up_chexps", "down_exps", "down_chexps",
                         "gate_exps", "gate_chexps"},
                        length)) {
      return TensorClass::routed_expert;
    }
    if (starts_with_any(rest, {"up.", "down.", "gate."}, length)) return TensorClass::dense_ffn;
  }
  return TensorClass::other;
}

std::optional<std::uint64_t> tensor_layer(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc{} || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return layer;
}

std::optional<Bytes> exact_tensor_bytes(const Tensor& tensor) {
  const auto size = std::ranges::find(kTypeSizes, tensor.type, &TypeSize::type);
  if (size == kTypeSizes.end()) return std::nullopt;
  if (tensor.shape[0] % size->elements != 0) return kUnrepresentable;  // rows consist of whole blocks
  unsigned __int128 bytes = static_cast<unsigned __int128>(tensor.shape[0] / size->elements) * size->bytes;
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
    bytes *= tensor.shape[i];
    if (bytes >= kUnrepresentable) return kUnrepresentable;
  }
  return static_cast<Bytes>(bytes);
}

std::optional<TableProblem> check_table(std::vector<Tensor>& tensors, Bytes data_bytes,
                                        std::uint64_t alignment) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::string_view(tensors[i].name); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::string& name = tensors[order[i]].name;
    if (name == tensors[order[i - 1]].name)
      return TableProblem{fmt::format("tensor {} is listed twice", name)};
  }

  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(tensors[i].offset, i); });
  Bytes needed = 0;                          // end of the data so far, unpadded
  std::optional<Bytes> expected_offset = 0;  // of the next tensor; unknown after a type of unknown size
  const Tensor* last = nullptr;
  for (std::size_t i : order) {
    const Tensor& tensor = tensors[i];
    if (tensor.offset % alignment != 0) {
      return TableProblem{fmt::format("tensor {} lies at offset {}, which is no multiple of the alignment {}",
                                      tensor.name, tensor.offset, alignment)};
    }
    if (expected_offset && tensor.offset != *expected_offset) {
      return TableProblem{
          fmt::format("tensor {} lies at offset {} of the tensor data, but the tensors before it end at {}",
                      tensor.name, tensor.offset, *expected_offset)};
    }
    const std::optional<Bytes> exact = exact_tensor_bytes(tensor);
    const Bytes bytes = exact.value_or(0);
    if (bytes == kUnrepresentable || bytes > kUnrepresentable - alignment - tensor.offset) {
      return TableProblem{fmt::format("tensor {} has the impossible shape {} x {} x {} x {} for its type {}",
                                      tensor.name, tensor.shape[0], tensor.shape[1], tensor.shape[2],
                                      tensor.shape[3], tensor.type)};
    }
    if (tensor.offset + bytes >= needed) last = &tensor;
    needed = std::max(needed, tensor.offset + bytes);
    expected_offset.reset();
    if (exact) expected_offset = (needed + alignment - 1) / alignment * alignment;
  }
  if (needed > data_bytes) {
    return TableProblem{fmt::format("its last tensor {} needs {} bytes of tensor data, {} are there",
                                    last->name, needed, data_bytes),
                        needed - data_bytes};
  }

  // From the last tensor to the first: each reaches to the next larger offset. Empty tensors share theirs.
  Bytes end = data_bytes, offset_above = data_bytes;
  for (std::size_t i : std::views::reverse(order)) {
    Tensor& tensor = tensors[i];
    if (tensor.offset != offset_above) {
      end = offset_above;
      offset_above = tensor.offset;
    }
    tensor.bytes = exact_tensor_bytes(tensor) == 0 ? 0 : end - tensor.offset;
  }
  return std::nullopt;
}

void add_sizes(TensorSizes& sizes, const std::vector<Tensor>& tensors, std::uint64_t layers) {
  const auto padded = [&](std::vector<Bytes>& by_layer, std::uint64_t layer) -> Bytes& {
    if (by_layer.size() <= layer) by_layer.resize(layer + 1);
    return by_layer[layer];
  };
  layers = std::min(layers, kMaxLayers);
  if (layers > 0) {
    padded(sizes.expert_bytes_by_layer, layers - 1);
    padded(sizes.dense_ffn_bytes_by_layer, layers - 1);
  }
  for (const Tensor& tensor : tensors) {
    const TensorClass kind = classify_tensor(tensor.name);
    const auto layer = tensor_layer(tensor.name);
    const bool counted = layer && *layer < kMaxLayers;
    if (kind == TensorClass::routed_expert) {
      sizes.expert_bytes_total += tensor.bytes;
      if (counted) padded(sizes.expert_bytes_by_layer, *layer) += tensor.bytes;
    } else {
      sizes.non_expert_bytes += tensor.bytes;
      if (kind == TensorClass::dense_ffn && counted)
        padded(sizes.dense_ffn_bytes_by_layer, *layer) += tensor.bytes;
    }
  }
}

}  // namespace gezel::gguf
