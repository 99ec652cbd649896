// capacity/kv_choice.h
//
// In which type a model's KV cache is kept (spec 20 section 10). Rating, preview and launch ask the same
// function, so that they cannot disagree.
#pragma once
#include <optional>
#include <string_view>

#include "capacity/kv_size.h"

namespace gezel::capacity {

// Models whose wide heads and soft-capped attention garble stored text under 8-bit caches, and whose windowed
// cache cannot be rewound in part (capacity/swa.h).
bool is_gemma_family(std::string_view architecture, std::string_view model_id);

struct KvChoice {
  KvType type = KvType::f16;
  // A quantized V cache needs flash attention, without which the library refuses to create the context.
  // Nothing: the engine or its calibration decides.
  std::optional<bool> flash_attention;
};

struct KvChoiceInput {
  std::optional<KvType> configured;  // llamaCppKvCacheType
  bool on_gpu = false;               // the layers run on a GPU
  std::string_view architecture, model_id;
  std::optional<KvChoice> calibrated;  // what was measured best on this processor
};

// K and V share the type.
KvChoice choose_kv(const KvChoiceInput& input);
KvChoice with_type(KvType type);

// A second slot for the price of a narrower cache: worth it, because with one slot every switch between two
// conversations computes a prompt again. True when nothing is configured, the choice was f16, the machine's
// tier allows two slots, f16 gives one and q8_0 two.
struct TradeInput {
  bool type_configured = false, slots_configured = false;
  KvType chosen = KvType::f16;
  int tier = 1;                         // tier_slots()
  int f16_ceiling = 1, q8_ceiling = 1;  // slot_ceiling() with each type
};
bool trade_for_a_slot(const TradeInput& input);

}  // namespace gezel::capacity
