// capacity/kv_size.h
//
// What a model's KV cache and recurrent state cost in bytes, from the geometry in its file alone.
//
// One walk over the layers covers every architecture: a layer's cache grows with the context (global), is
// bounded by a sliding window (windowed), is a state of fixed size (recurrent), or does not exist. Pure
// functions; results that would not fit 64 bits saturate. Where the file does not say enough the answer is
// absent, and callers use heuristic_kv().
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "gguf/metadata.h"

namespace gezel::capacity {

using Tokens = std::int64_t;

// Element types of a KV cache. K and V share one.
enum class KvType { f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 };
std::string_view kv_type_name(KvType type);
std::optional<KvType> parse_kv_type(std::string_view name);

// floor(elements * exact bytes per element), for example 34/32 for q8_0.
Bytes kv_element_bytes(std::uint64_t elements, KvType type);

// Elements and states of one sequence.
struct KvGeometry {
  std::uint64_t global_elements = 0;    // per token, layers that grow with the context
  std::uint64_t windowed_elements = 0;  // per token, layers that keep a window only
  Tokens window = 0;                    // tokens; 0: no windowed layers
  Bytes recurrent_bytes = 0;            // per sequence, always f32
  int attention_layers = 0, windowed_layers = 0, recurrent_layers = 0;
  // False: the file has a sliding window in a pattern that is not known; all layers then count as global.
  bool window_layout_known = true;
};

// Nothing when head counts or sizes are missing or implausible, or when the architecture's cache follows
// other rules (deepseek4).
std::optional<KvGeometry> kv_geometry(const gguf::Metadata& metadata);

// How the engine lays the cache out.
struct KvLayout {
  KvType type = KvType::f16;
  int slots = 1;
  bool unified = false;               // one buffer for all slots, instead of one stream per slot
  bool full_window = false;           // sliding-window layers keep the whole context
  std::optional<Tokens> micro_batch;  // the engine's, when known; else kMicroBatchMargin
};

// Covers the largest micro-batch that is ever launched.
inline constexpr Tokens kMicroBatchMargin = 2048;
// Engines pad a slot's cells to a multiple of this.
inline constexpr Tokens kCellPadding = 256;

// Cells a windowed layer keeps in one stream of `context` tokens:
// pad256(min(context, window * (unified ? slots : 1) + micro_batch)).
Tokens windowed_cells(Tokens context, Tokens window, Tokens micro_batch, bool unified, int slots);

// Cost of a slot split into what grows with its context and what does not.
struct KvCost {
  Bytes slope = 0;  // bytes per token of context
  Bytes fixed = 0;  // bytes per slot: windows and recurrent states
};
KvCost kv_cost(const KvGeometry& geometry, KvType type);  // windowed cache, kMicroBatchMargin
Bytes full_kv_bytes(const KvGeometry& geometry, KvType type,
                    Tokens context);  // every attention layer at full context

// All slots together as an engine allocates them: contexts padded, exact windowed cells when the
// micro-batch is known.
Bytes kv_bytes(const KvGeometry& geometry, const KvLayout& layout, Tokens context_per_slot);

// A cache's f16 bytes as another type, by the approximate scales that slot counts and catalog ratings use
// (q8_0 0.55, q4_* 0.3, f32 2, others 1), half up.
Bytes quick_scaled(Bytes f16_bytes, KvType type);

// For files whose geometry is not known: a slope between 40 and 400 KiB per token of f16, from the
// size of the weights.
KvCost heuristic_kv(Bytes weights, KvType type);
// The same for a context, rounded once.
Bytes heuristic_kv_bytes(Bytes weights, KvType type, Tokens context);

}  // namespace gezel::capacity
