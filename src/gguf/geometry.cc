#include "gguf/geometry.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace gezel::gguf {
namespace {

constexpr std::string_view kHeadCount = "attention.head_count", kHeadCountKv = "attention.head_count_kv",
                           kWindowPattern = "attention.sliding_window_pattern",
                           kRecurrentLayers = "attention.recurrent_layers";
constexpr auto kPerLayerSuffixes =
    std::to_array({kHeadCount, kHeadCountKv, kWindowPattern, kRecurrentLayers});

bool has_suffix(std::string_view key, std::string_view suffix) {
  return key.size() > suffix.size() && key.ends_with(suffix) && key[key.size() - suffix.size() - 1] == '.';
}

class Lookup {
 public:
  Lookup(const Values& values, std::string_view architecture)
      : values_(values), architecture_(architecture) {}

  std::string key(std::string_view suffix) const {
    if (!architecture_.empty()) return std::string(architecture_) + "." + std::string(suffix);
    for (const auto& [key, value] : values_.all()) {
      if (has_suffix(key, suffix)) return key;
    }
    return {};
  }
  std::optional<std::uint64_t> number(std::string_view suffix) const {
    return values_.unsigned_at(key(suffix));
  }
  std::optional<LayerValues> layers(std::string_view suffix) const {
    const LayerValues* layers = values_.layers_at(key(suffix));
    return layers ? std::optional(*layers) : std::nullopt;
  }
  std::optional<LayerCount> count(std::string_view suffix) const {
    if (const auto value = number(suffix)) return LayerCount{{}, static_cast<double>(*value)};
    auto values = layers(suffix);
    if (!values || values->empty()) return std::nullopt;
    const double mean = std::accumulate(values->begin(), values->end(), 0.0) / static_cast<double>(values->size());
    return LayerCount{std::move(*values), mean};
  }
  std::optional<double> any_number(std::string_view suffix) const { return values_.number_at(key(suffix)); }

 private:
  const Values& values_;
  std::string_view architecture_;
};

}  // namespace

bool is_per_layer_key(std::string_view key) {
  return std::ranges::any_of(kPerLayerSuffixes,
                             [&](std::string_view suffix) { return has_suffix(key, suffix); });
}

Geometry resolve_geometry(const Values& values, std::string_view architecture) {
  const Lookup at(values, architecture);
  Geometry g;
  g.context_length = at.number("context_length");
  g.block_count = at.number("block_count");
  g.embedding_length = at.number("embedding_length");
  g.head_count = at.count(kHeadCount);
  g.head_count_kv = at.count(kHeadCountKv);
  g.key_length = at.number("attention.key_length");
  g.value_length = at.number("attention.value_length");
  g.key_length_swa = at.number("attention.key_length_swa");
  g.value_length_swa = at.number("attention.value_length_swa");
  g.key_length_mla = at.number("attention.key_length_mla");
  g.value_length_mla = at.number("attention.value_length_mla");
  g.kv_lora_rank = at.number("attention.kv_lora_rank");
  g.indexer_key_length = at.number("attention.indexer.key_length");
  g.sliding_window = at.number("attention.sliding_window");
  g.sliding_window_layers = at.layers(kWindowPattern);
  g.sliding_window_period = at.number(kWindowPattern);
  g.shared_kv_layers = at.number("attention.shared_kv_layers");
  g.full_attention_interval = at.number("full_attention_interval");
  g.recurrent_layers = at.layers(kRecurrentLayers);
  g.ssm_inner_size = at.number("ssm.inner_size");
  g.ssm_state_size = at.number("ssm.state_size");
  g.ssm_conv_kernel = at.number("ssm.conv_kernel");
  g.ssm_group_count = at.number("ssm.group_count");
  g.kda_head_dim = at.number("kda.head_dim");
  g.shortconv_l_cache = at.number("shortconv.l_cache");
  g.expert_count = at.number("expert_count");
  g.expert_used_count = at.number("expert_used_count");
  g.nextn_predict_layers = at.number("nextn_predict_layers");
  return g;
}

std::optional<std::int64_t> resolve_pooling_type(const Values& values, std::string_view architecture) {
  const auto number = Lookup(values, architecture).any_number("pooling_type");
  if (!number || *number < -1 || *number > 100) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

}  // namespace gezel::gguf
