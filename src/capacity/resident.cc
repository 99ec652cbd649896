#include "capacity/resident.h"

#include <array>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr Bytes kLlamaBuffers = 256 * kMiB, kProjectorBuffers = 384 * kMiB, kMlxRuntime = kGiB;
constexpr Bytes kDs4WorkingSet = 48 * kGiB;

struct FamilyName {
  EngineFamily family;
  std::string_view name;
};
constexpr auto kFamilies = std::to_array<FamilyName>(
    {{EngineFamily::llama_cpp, "llama-cpp"}, {EngineFamily::mlx, "mlx"}, {EngineFamily::ds4, "ds4"}});

}  // namespace

std::string_view engine_family_name(EngineFamily family) {
  return std::ranges::find(kFamilies, family, &FamilyName::family)->name;
}

std::optional<EngineFamily> parse_engine_family(std::string_view name) {
  const auto found = std::ranges::find(kFamilies, name, &FamilyName::name);
  return found == kFamilies.end() ? std::nullopt : std::optional(found->family);
}

Bytes resident_bytes(EngineFamily family, Bytes weights, Bytes projector) {
  switch (family) {
    case EngineFamily::llama_cpp: {
      const Bytes buffers = kLlamaBuffers + (projector > 0 ? kProjectorBuffers : 0);
      return plus(round_share(plus(weights, projector), 11, 10), buffers);
    }
    case EngineFamily::mlx:
      return plus(round_share(weights, 102, 100), kMlxRuntime);
    case EngineFamily::ds4:
      return std::min(weights, kDs4WorkingSet);
  }
  return 0;
}

Bytes manifest_kv_bytes(const ManifestCosts& costs, Tokens context, KvType type) {
  const Bytes per_token = costs.kv_per_token_f16.value_or(0);
  if (per_token == 0 || context <= 0) return 0;
  const Bytes f16 = plus(times(per_token, static_cast<std::uint64_t>(context)), costs.kv_fixed_f16);
  return costs.family == EngineFamily::mlx ? f16 : quick_scaled(f16, type);
}

Footprint rating_footprint(const ManifestCosts& costs, Tokens floor, KvType type) {
  const Bytes resident =
      costs.resident.value_or(resident_bytes(costs.family, costs.weights, costs.projector));
  if (costs.family == EngineFamily::ds4) return {resident, false};
  if (costs.kv_per_token_f16.value_or(0) > 0) {
    return {plus(resident, manifest_kv_bytes(costs, floor, type)), false};
  }
  const KvType paid = costs.family == EngineFamily::mlx ? KvType::f16 : type;
  return {plus(resident, heuristic_kv_bytes(costs.weights, paid, floor)), true};
}

}  // namespace gezel::capacity
