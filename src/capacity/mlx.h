// capacity/mlx.h
//
// What an MLX model gets (spec 20 section 17): geometry from its config.json, the same ladder, and the limits
// that its process is started with.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capacity/broker.h"
#include "capacity/memory_plan.h"
#include "capacity/requirement.h"

namespace gezel::capacity {

struct MlxModel {
  std::optional<KvGeometry> geometry;  // layers, heads or sizes missing: none
  std::optional<Tokens> native;
};
// `text_config` counts where there is one. Text that is no JSON object says nothing.
MlxModel parse_mlx_config(std::string_view config_json);

struct MlxInput {
  std::string key, name;  // in the ledger, and for texts
  MlxModel model;
  Bytes weights = 0;
  std::optional<Tokens> model_override, configured;  // modelContextOverrides, mlxNumCtx
  std::optional<Tokens> floor;                       // GEZEL_MIN_CONTEXT_TOKENS
  std::optional<int> slots;
  Budget pools;
  Bytes total_ram = 0;
  BrokerView broker;
  Bytes committed_other = 0;
  std::optional<Bytes> free_ram;
  std::optional<int> cache_budget_mib;  // cacheBudgetMb.mlx
  int kv_bits = 0;  // mlxKvBits; passed on, never priced: batched layers are not quantized
};

struct MlxPlan {
  MemoryPlan memory;                   // nothing is evicted in it; making room is a shortfall's matter
  std::vector<std::string> arguments;  // of a model that is granted
};
MlxPlan plan_mlx(const MlxInput& input);

}  // namespace gezel::capacity
