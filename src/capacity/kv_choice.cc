#include "capacity/kv_choice.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace gezel::capacity {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool quantized(KvType type) {
  return type != KvType::f32 && type != KvType::f16 && type != KvType::bf16;
}

}  // namespace

bool is_gemma_family(std::string_view architecture, std::string_view model_id) {
  return lower(architecture).starts_with("gemma") || lower(model_id).contains("gemma");
}

KvChoice with_type(KvType type) {
  return {type, quantized(type) ? std::optional(true) : std::nullopt};
}

KvChoice choose_kv(const KvChoiceInput& input) {
  if (input.configured) return with_type(*input.configured);
  // On a processor flash attention is what makes deep contexts slow; only a measurement may ask for it.
  if (!input.on_gpu) return input.calibrated.value_or(with_type(KvType::f16));
  return with_type(is_gemma_family(input.architecture, input.model_id) ? KvType::f16 : KvType::q8_0);
}

bool trade_for_a_slot(const TradeInput& input) {
  if (input.type_configured || input.slots_configured || input.chosen != KvType::f16) return false;
  return input.tier >= 2 && std::min(input.f16_ceiling, input.tier) < 2 &&
         std::min(input.q8_ceiling, input.tier) >= 2;
}

}  // namespace gezel::capacity
