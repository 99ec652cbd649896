#include "capacity/kv_size.h"

#include <algorithm>
#include <array>
#include <limits>

#include "capacity/arithmetic.h"
#include "capacity/layers.h"

namespace gezel::capacity {
namespace {

struct ElementSize {
  KvType type;
  std::string_view name;
  std::uint32_t bytes_per_32;    // exact bytes of 32 elements
  std::uint32_t percent_of_f16;  // approximate scale for quick sizing
};
constexpr auto kElementSizes = std::to_array<ElementSize>({
    {KvType::f32, "f32", 128, 200},
    {KvType::f16, "f16", 64, 100},
    {KvType::bf16, "bf16", 64, 100},
    {KvType::q8_0, "q8_0", 34, 55},
    {KvType::q5_1, "q5_1", 24, 100},
    {KvType::q5_0, "q5_0", 22, 100},
    {KvType::q4_1, "q4_1", 20, 30},
    {KvType::q4_0, "q4_0", 18, 30},
});

constexpr std::uint64_t kMaxHeads = 65'536, kMaxHeadSize = 1'048'576, kMaxState = std::uint64_t{1} << 32;
constexpr Bytes kF32Bytes = 4;
constexpr Bytes kHeuristicFloor = 40 * kKiB, kHeuristicCeiling = 400 * kKiB;

const ElementSize& size_of(KvType type) {
  return *std::ranges::find(kElementSizes, type, &ElementSize::type);
}

Bytes typed(Wide elements, KvType type) {
  return round_div(elements * size_of(type).bytes_per_32, 32);
}

Tokens pad(Tokens cells) {
  return (cells + kCellPadding - 1) / kCellPadding * kCellPadding;
}

std::uint64_t positive(std::optional<std::uint64_t> value) {
  return std::min(value.value_or(0), kMaxState);
}

// State of one recurrent layer, always f32. Shapes that the file does not describe contribute nothing.
Bytes recurrent_state(const gguf::Metadata& metadata, std::uint64_t head_size) {
  const gguf::Geometry& g = metadata.geometry;
  const std::uint64_t heads = std::min(attention_heads(g).value_or(0), kMaxHeads);
  const Wide convolution = positive(g.ssm_conv_kernel) > 0 ? positive(g.ssm_conv_kernel) - 1 : 0;
  if (metadata.architecture == "minimax-01") return saturate(Wide{head_size} * head_size * heads * kF32Bytes);
  if (g.kda_head_dim) {
    const Wide dim = std::min(*g.kda_head_dim, kMaxHeadSize);
    return saturate((3 * convolution * heads * dim + dim * dim * heads) * kF32Bytes);
  }
  if (g.shortconv_l_cache) {
    const Wide kept = std::max<std::uint64_t>(positive(g.shortconv_l_cache), 1) - 1;
    return saturate(positive(g.embedding_length) * kept * kF32Bytes);
  }
  const Wide inner = positive(g.ssm_inner_size), state = std::min(positive(g.ssm_state_size), kMaxHeadSize);
  const Wide groups = std::min(positive(g.ssm_group_count), kMaxHeads);
  const Wide width = std::min(inner + 2 * groups * state, Wide{kMaxState} * kMaxHeads);
  return saturate((std::min<Wide>(convolution, kMaxHeads) * width + inner * state) * kF32Bytes);
}

struct HeadSizes {
  std::uint64_t key = 0, value = 0;
  bool plausible() const { return key <= kMaxHeadSize && value <= kMaxHeadSize; }
};

// Elements per head of a global or a windowed layer.
std::optional<HeadSizes> head_sizes(const gguf::Geometry& g, bool windowed) {
  auto key = g.key_length, value = g.value_length;
  const auto heads = attention_heads(g);
  if (g.embedding_length && heads && *heads > 0) {
    if (!key) key = *g.embedding_length / *heads;
    if (!value) value = *g.embedding_length / *heads;
  }
  if (windowed && g.key_length_swa) key = g.key_length_swa;
  if (windowed && g.value_length_swa) value = g.value_length_swa;
  if (!key || !value) return std::nullopt;
  const HeadSizes sizes{*key, *value};
  return sizes.plausible() ? std::optional(sizes) : std::nullopt;
}

// Multi-head latent attention caches one compressed row per token, from which both K and V are computed.
bool is_mla(const gguf::Geometry& g) {
  return g.key_length_mla.value_or(0) > 0 && g.value_length_mla.value_or(0) > 0;
}

std::uint64_t indexer_elements(const gguf::Metadata& metadata) {
  const bool has_indexer = metadata.architecture == "deepseek32" || metadata.architecture == "glm-dsa";
  return has_indexer ? std::min(metadata.geometry.indexer_key_length.value_or(0), kMaxHeadSize) : 0;
}

}  // namespace

std::string_view kv_type_name(KvType type) {
  return size_of(type).name;
}

std::optional<KvType> parse_kv_type(std::string_view name) {
  const auto found = std::ranges::find(kElementSizes, name, &ElementSize::name);
  return found == kElementSizes.end() ? std::nullopt : std::optional(found->type);
}

Bytes kv_element_bytes(std::uint64_t elements, KvType type) {
  return saturate(Wide{elements} * size_of(type).bytes_per_32 / 32);
}

std::optional<KvGeometry> kv_geometry(const gguf::Metadata& metadata) {
  const gguf::Geometry& g = metadata.geometry;
  if (metadata.architecture == "deepseek4") return std::nullopt;  // compressed caches of another shape
  const auto plan = plan_layers(metadata);
  if (!plan) return std::nullopt;

  KvGeometry out;
  out.window =
      static_cast<Tokens>(std::min<std::uint64_t>(plan->window, std::numeric_limits<std::int32_t>::max()));
  out.window_layout_known = plan->window_layout_known;
  const std::uint64_t indexer = indexer_elements(metadata);
  for (std::size_t i = 0; i < plan->layers.size(); ++i) {
    const LayerKind& layer = plan->layers[i];
    if (layer.recurrent) {
      ++out.recurrent_layers;
      const auto sizes = head_sizes(g, false);
      out.recurrent_bytes =
          saturate(Wide{out.recurrent_bytes} + recurrent_state(metadata, sizes ? sizes->key : 0));
    }
    if (!layer.attention) continue;
    const auto heads = kv_heads(g, i);
    const auto sizes = head_sizes(g, layer.windowed);
    if (!heads || *heads > kMaxHeads || !sizes) return std::nullopt;
    const std::uint64_t per_head = is_mla(g) ? sizes->key : sizes->key + sizes->value;
    const std::uint64_t elements = *heads * per_head + indexer;
    (layer.windowed ? out.windowed_elements : out.global_elements) += elements;
    ++out.attention_layers;
    out.windowed_layers += layer.windowed ? 1 : 0;
  }
  if (out.windowed_layers == 0) out.window = 0;
  return out;
}

Tokens windowed_cells(Tokens context, Tokens window, Tokens micro_batch, bool unified, int slots) {
  return pad(std::min(context, window * (unified ? slots : 1) + micro_batch));
}

KvCost kv_cost(const KvGeometry& geometry, KvType type) {
  const Wide kept = static_cast<Wide>(geometry.window + kMicroBatchMargin);
  const Bytes windows = typed(geometry.windowed_elements * kept, type);
  return {typed(geometry.global_elements, type), saturate(Wide{windows} + geometry.recurrent_bytes)};
}

Bytes full_kv_bytes(const KvGeometry& geometry, KvType type, Tokens context) {
  return typed((Wide{geometry.global_elements} + geometry.windowed_elements) * static_cast<Wide>(context),
               type);
}

Bytes kv_bytes(const KvGeometry& geometry, const KvLayout& layout, Tokens context_per_slot) {
  const Tokens cells = pad(context_per_slot);
  const Tokens windowed = layout.full_window ? cells
                                             : windowed_cells(cells, geometry.window,
                                                              layout.micro_batch.value_or(kMicroBatchMargin),
                                                              layout.unified, layout.slots);
  // A unified buffer holds all slots' windows once.
  const Wide windowed_streams = layout.unified && !layout.full_window ? 1 : layout.slots;
  const Wide slots = static_cast<Wide>(layout.slots);
  const Wide elements = Wide{geometry.global_elements} * static_cast<Wide>(cells) * slots +
                        Wide{geometry.windowed_elements} * static_cast<Wide>(windowed) * windowed_streams;
  return saturate(Wide{typed(elements, layout.type)} + Wide{geometry.recurrent_bytes} * slots);
}

KvCost heuristic_kv(Bytes weights, KvType type) {
  // 5 bytes of cache per million bytes of weights; larger models have wider heads and more layers.
  const Bytes f16 = std::clamp(saturate(Wide{weights} * 5 / 1'000'000), kHeuristicFloor, kHeuristicCeiling);
  return {round_div(Wide{f16} * size_of(type).percent_of_f16, 100), 0};
}

Bytes quick_scaled(Bytes f16_bytes, KvType type) {
  return round_share(f16_bytes, size_of(type).percent_of_f16, 100);
}

Bytes heuristic_kv_bytes(Bytes weights, KvType type, Tokens context) {
  const Bytes f16 = heuristic_kv(weights, KvType::f16).slope;
  return round_div(Wide{f16} * static_cast<Wide>(context) * size_of(type).percent_of_f16, 100);
}

}  // namespace gezel::capacity
