#include "capacity/layers.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gezel::capacity {
namespace {

enum class Order { dense_last, dense_first };
enum class When {
  always,
  window_given,    // the file names a window > 0
  unless_zero,     // the file does not say window = 0
  sixty_four,      // only the 64-layer model of the family
  array_required,  // the file's per-layer array decides; without it the layout is unknown
  never,           // the engine ignores the window: all layers are global
};

struct WindowRule {
  std::string_view architecture;
  std::uint64_t period;  // layers per repetition
  Order order;
  std::uint64_t default_window;  // tokens, when the file names none; 0: no default
  When when;
};

// Layouts that files leave to the engine (libllama's src/models/*.cpp).
constexpr auto kWindowRules = std::to_array<WindowRule>({
    {"gemma2", 2, Order::dense_last, 4096, When::always},
    {"gemma3", 6, Order::dense_last, 0, When::window_given},
    {"gemma3n", 5, Order::dense_last, 0, When::always},
    {"gemma4", 0, Order::dense_last, 0, When::array_required},
    {"granite_swa", 0, Order::dense_last, 0, When::array_required},
    {"mimo2", 0, Order::dense_last, 0, When::array_required},
    {"step35", 0, Order::dense_last, 0, When::array_required},
    {"gpt-oss", 2, Order::dense_last, 0, When::always},
    {"llama4", 4, Order::dense_last, 8192, When::unless_zero},
    {"cohere2", 4, Order::dense_last, 0, When::always},
    {"cohere2moe", 4, Order::dense_first, 0, When::always},
    {"exaone4", 4, Order::dense_last, 4096, When::sixty_four},
    {"exaone-moe", 4, Order::dense_last, 128, When::always},
    {"olmo2", 4, Order::dense_last, 0, When::window_given},
    {"afmoe", 4, Order::dense_last, 0, When::window_given},
    {"mellum", 4, Order::dense_last, 0, When::window_given},
    {"muse-glimmer", 4, Order::dense_last, 0, When::window_given},
    {"plamo3", 8, Order::dense_last, 0, When::window_given},
    {"laguna", 4, Order::dense_first, 0, When::window_given},
    {"smallthinker", 4, Order::dense_first, 4096, When::window_given},
    {"phi3", 0, Order::dense_last, 0, When::never},
});

struct IntervalRule {
  std::string_view architecture;
  std::uint64_t interval;  // every interval-th layer is attention, the others are recurrent
};
constexpr auto kIntervalRules = std::to_array<IntervalRule>({
    {"qwen3next", 4},
    {"qwen35", 4},
    {"qwen35moe", 4},
    {"qwen4exp", 4},
    {"minimax-01", 8},
});

// Their trailing multi-token-prediction layers own no cache of the trunk. Elsewhere such layers are counted.
constexpr auto kTrunkWithoutMtp =
    std::to_array<std::string_view>({"deepseek32", "glm-dsa", "step35", "mimo2", "hy_v3", "dots3note"});

constexpr std::uint64_t kGemma3nOwnedLayers = 20;

template <class Table>
auto find_rule(const Table& table, std::string_view architecture) {
  const auto found = std::ranges::find(table, architecture, &Table::value_type::architecture);
  return found == table.end() ? nullptr : &*found;
}

std::uint64_t owned_layers(const gguf::Metadata& metadata, std::uint64_t blocks, std::uint64_t interval) {
  std::uint64_t owned = blocks - std::min(blocks, metadata.geometry.shared_kv_layers.value_or(0));
  if (metadata.architecture == "gemma3n") owned = std::min(owned, kGemma3nOwnedLayers);
  const bool trunk_without_mtp =
      interval > 1 || std::ranges::find(kTrunkWithoutMtp, metadata.architecture) != kTrunkWithoutMtp.end();
  if (trunk_without_mtp) {
    owned = std::min(owned, blocks - std::min(blocks, metadata.geometry.nextn_predict_layers.value_or(0)));
  }
  return owned;
}

bool windowed_by_period(std::uint64_t layer, std::uint64_t period, Order order) {
  if (period == 0) return true;
  return order == Order::dense_last ? layer % period < period - 1 : layer % period != 0;
}

void mark_windows(LayerPlan& plan, const gguf::Metadata& metadata, std::uint64_t blocks) {
  const gguf::Geometry& g = metadata.geometry;
  const WindowRule* rule = find_rule(kWindowRules, metadata.architecture);
  if (rule && rule->when == When::never) return;
  const bool has_pattern = g.sliding_window_layers || g.sliding_window_period;
  const std::uint64_t window = g.sliding_window.value_or(rule ? rule->default_window : 0);

  if (g.sliding_window_layers) {
    const auto& flags = *g.sliding_window_layers;
    if (flags.size() != blocks || window == 0) {
      plan.window_layout_known = std::ranges::none_of(flags, [](auto flag) { return flag != 0; });
      return;
    }
    for (std::size_t i = 0; i < plan.layers.size(); ++i) plan.layers[i].windowed = flags[i] != 0;
    plan.window = window;
    return;
  }
  if (!rule && !has_pattern) {
    plan.window_layout_known = window == 0;
    return;
  }
  if (rule) {
    if (rule->when == When::window_given && g.sliding_window.value_or(0) == 0) return;
    if (rule->when == When::unless_zero && g.sliding_window == 0) return;
    if (rule->when == When::sixty_four && blocks != 64) return;
    if (rule->when == When::array_required && !has_pattern) {
      plan.window_layout_known = window == 0;
      return;
    }
  }
  if (window == 0) {
    plan.window_layout_known = false;
    return;
  }
  const std::uint64_t period = g.sliding_window_period.value_or(rule ? rule->period : 0);
  const Order order = rule ? rule->order : Order::dense_last;
  for (std::size_t i = 0; i < plan.layers.size(); ++i)
    plan.layers[i].windowed = windowed_by_period(i, period, order);
  plan.window = window;
}

}  // namespace

std::optional<std::uint64_t> kv_heads(const gguf::Geometry& geometry, std::uint64_t layer) {
  const auto& count = geometry.head_count_kv ? geometry.head_count_kv : geometry.head_count;
  if (!count) return std::nullopt;
  if (count->per_layer.empty()) return static_cast<std::uint64_t>(count->mean);
  if (layer >= count->per_layer.size()) return std::nullopt;
  return count->per_layer[layer];
}

std::optional<std::uint64_t> attention_heads(const gguf::Geometry& geometry) {
  if (!geometry.head_count) return std::nullopt;
  for (std::uint64_t heads : geometry.head_count->per_layer) {
    if (heads > 0) return heads;
  }
  return static_cast<std::uint64_t>(geometry.head_count->mean);
}

std::optional<LayerPlan> plan_layers(const gguf::Metadata& metadata) {
  const gguf::Geometry& g = metadata.geometry;
  const std::uint64_t blocks = g.block_count.value_or(0);
  if (blocks == 0 || blocks > kMaxLayers) return std::nullopt;

  const IntervalRule* interval_rule = find_rule(kIntervalRules, metadata.architecture);
  const std::uint64_t interval =
      g.full_attention_interval.value_or(interval_rule ? interval_rule->interval : 0);
  LayerPlan plan;
  plan.layers.resize(owned_layers(metadata, blocks, interval));
  const bool both = metadata.architecture == "falcon-h1";
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    LayerKind& layer = plan.layers[i];
    if (both) {
      layer.recurrent = layer.attention = true;
      continue;
    }
    if (g.recurrent_layers) {
      layer.recurrent = i < g.recurrent_layers->size() && (*g.recurrent_layers)[i] != 0;
    } else if (interval > 1) {
      layer.recurrent = (i + 1) % interval != 0;
    } else {
      layer.recurrent = kv_heads(g, i) == 0;
    }
    layer.attention = !layer.recurrent;
  }
  mark_windows(plan, metadata, blocks);
  return plan;
}

}  // namespace gezel::capacity
