#include "capacity/mlx.h"

#include "base/json.h"
#include "capacity/arithmetic.h"
#include "capacity/slots.h"

namespace gezel::capacity {
namespace {

constexpr Tokens kDefaultWindowTokens = 1024;
constexpr std::int64_t kMostLayers = 4096, kMostHeads = 65'536, kMostSize = 1 << 20;

struct CacheTier {
  Bytes below;
  std::uint64_t mib;
};
constexpr CacheTier kCacheTiers[] = {{16 * kGiB, 2048}, {32 * kGiB, 4096}, {64 * kGiB, 8192}};
constexpr std::uint64_t kTopCacheMib = 16'384, kLeastCacheMib = 256;

std::int64_t bounded(const json::object& object, std::string_view key, std::int64_t most) {
  const std::int64_t value = int_or(object, key, 0);
  return value > 0 && value <= most ? value : 0;
}

std::optional<KvGeometry> geometry_of(const json::object& config) {
  const std::int64_t layers = bounded(config, "num_hidden_layers", kMostLayers);
  const std::int64_t heads = bounded(config, "num_key_value_heads", kMostHeads);
  std::int64_t size = bounded(config, "head_dim", kMostSize);
  if (size == 0) {
    const std::int64_t hidden = bounded(config, "hidden_size", std::int64_t{1} << 30);
    const std::int64_t attention_heads = bounded(config, "num_attention_heads", kMostHeads);
    size = attention_heads > 0 ? hidden / attention_heads : 0;
  }
  if (layers == 0 || heads == 0 || size == 0) return std::nullopt;
  const std::int64_t global_size = bounded(config, "global_head_dim", kMostSize);
  const std::int64_t global_heads = bounded(config, "num_global_key_value_heads", kMostHeads);
  const auto bounded_elements = static_cast<std::uint64_t>(2 * heads * size);
  const auto global_elements = static_cast<std::uint64_t>(2 * (global_heads > 0 ? global_heads : heads) *
                                                          (global_size > 0 ? global_size : size));
  const json::array* types = array_at(config, "layer_types");
  KvGeometry out{.attention_layers = static_cast<int>(layers)};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    const json::string* type = types && at < types->size() ? (*types)[at].if_string() : nullptr;
    if (type && (*type == "sliding_attention" || *type == "linear_attention")) {
      out.windowed_elements += bounded_elements;
      ++out.windowed_layers;
    } else {
      out.global_elements += global_elements;
    }
  }
  if (out.windowed_layers > 0) {
    const std::int64_t window = bounded(config, "sliding_window", std::int64_t{1} << 30);
    out.window = window > 0 ? window : kDefaultWindowTokens;
  }
  return out;
}

std::uint64_t cache_tier_mib(Bytes ram) {
  for (const CacheTier& tier : kCacheTiers) {
    if (ram < tier.below) return tier.mib;
  }
  return kTopCacheMib;
}

void add(std::vector<std::string>& arguments, std::string name, std::uint64_t value) {
  arguments.push_back(std::move(name));
  arguments.push_back(std::to_string(value));
}

std::vector<std::string> arguments(const MlxInput& input, const MemoryPlan& plan) {
  const Bytes fast = minus(input.broker.fast_budget, input.committed_other);
  const std::uint64_t wanted = input.cache_budget_mib
                                   ? static_cast<std::uint64_t>(std::max(0, *input.cache_budget_mib))
                                   : cache_tier_mib(input.total_ram);
  const std::uint64_t cache =
      std::min(wanted, std::max(kLeastCacheMib, minus(fast, plan.inputs.resident) / kMiB));
  std::vector<std::string> out;
  add(out, "--max-concurrency", static_cast<std::uint64_t>(plan.slots));
  add(out, "--gpu-memory-limit-mb", fast / kMiB);
  if (!plan.estimated) add(out, "--wired-limit-mb", std::max<Bytes>(1, plan.reservation() / kMiB));
  add(out, "--cache-budget-mb", cache);
  if (input.kv_bits > 0) {
    add(out, "--kv-bits", static_cast<std::uint64_t>(input.kv_bits));
    out.insert(out.end(), {"--kv-quant-scheme", "uniform"});
  }
  return out;
}

void plan_with_ladder(const MlxInput& input, const ContextRequirement& need, MemoryPlan& plan) {
  const Bytes resident = plan.inputs.resident;
  const KvCost kv = kv_cost(*input.model.geometry, KvType::f16);
  plan.inputs.kv_per_token = kv.slope;
  plan.inputs.kv_fixed_per_slot = kv.fixed;
  plan.inputs.planned_slots =
      plan_slots({.family = EngineFamily::mlx,
                  .fast_bytes = input.pools.fast_bytes,
                  .fast_budget = input.broker.fast_budget,
                  .concurrency_bytes = input.pools.concurrency_bytes,
                  .committed_other = input.committed_other,
                  .weights = input.weights,
                  .resident = resident,
                  .slot_kv = slot_kv_bytes(input.model.geometry, input.weights, KvType::f16, need.requested),
                  .configured = input.slots});
  const LadderInput question{.requested = need.requested,
                             .minimum = need.minimum,
                             .slots = plan.inputs.planned_slots,
                             .cost = {.resident = resident, .slot_fixed = kv.fixed, .token = kv.slope},
                             .room = {.budget = input.broker.budget,
                                      .committed_other = input.committed_other,
                                      .free_ram = input.free_ram,
                                      .reserve = live_reserve(input.total_ram)}};
  const bool named = input.model_override || input.configured;
  const Ladder ladder =
      run_ladder(question, named ? std::nullopt : std::optional(std::min(need.native, kBelowFloorMinimum)));
  const bool reduced = ladder.clamped || ladder.slots < plan.inputs.planned_slots;
  plan.decision = !ladder.satisfied ? Decision::no : reduced ? Decision::smaller : Decision::fits;
  plan.slots = ladder.slots;
  plan.context = ladder.context;
  plan.below_floor = ladder.below_floor;
  plan.binding = ladder.clamp.binding;
  plan.largest_context = clamp_context(need.native, 1, question.cost, question.room, 1).context;
  const Bytes slot = plus(kv.fixed, times(kv.slope, static_cast<std::uint64_t>(plan.context)));
  plan.bytes.kv = times(slot, static_cast<std::uint64_t>(plan.slots));
  plan.alternatives = {{.what = "on its own engine",
                        .slots = ladder.slots,
                        .context = ladder.context,
                        .bytes = plan.reservation(),
                        .possible = ladder.satisfied,
                        .binding = plan.binding,
                        .why = ladder.reason}};
  if (ladder.satisfied) return;
  plan.denial = deny_context(input.name, need.minimum, plan.largest_context, ladder.reason);
  plan.denial->key = input.key;
  plan.denial->bytes = plan.reservation();
  plan.denial->would_commit = plus(input.committed_other, plan.reservation());
  plan.denial->limit = ladder.clamp.cap;
}

}  // namespace

MlxModel parse_mlx_config(std::string_view config_json) {
  const auto parsed = parse_json(config_json);
  if (!parsed || !parsed->is_object()) return {};
  const json::object& root = parsed->as_object();
  const json::object* text = object_at(root, "text_config");
  const json::object& config = text ? *text : root;
  MlxModel out{.geometry = geometry_of(config)};
  for (const char* key : {"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length",
                          "seq_length", "model_max_length"}) {
    if (const std::int64_t tokens = bounded(config, key, std::int64_t{1} << 40); tokens > 0) {
      out.native = tokens;
      break;
    }
  }
  return out;
}

MlxPlan plan_mlx(const MlxInput& input) {
  MlxPlan out;
  MemoryPlan& plan = out.memory;
  const Bytes resident = resident_bytes(EngineFamily::mlx, input.weights);
  const Tokens floor = input.floor.value_or(context_floor(0, input.total_ram));
  const auto request = input.model_override ? input.model_override
                       : input.configured   ? input.configured
                                            : input.model.native;
  const ContextRequirement need = context_requirement(
      input.model.native, request, input.model_override ? std::min(floor, *input.model_override) : floor);
  plan.bytes = {.weights = input.weights, .compute = minus(resident, input.weights)};
  plan.inputs = {.requested = need.requested,
                 .minimum = need.minimum,
                 .native = need.native,
                 .planned_slots = 1,
                 .resident = resident,
                 .budget = input.broker.budget,
                 .fast_budget = input.broker.fast_budget,
                 .co_residency = input.broker.co_residency,
                 .committed_other = input.committed_other,
                 .free_ram = input.free_ram};
  if (input.model.geometry) {
    plan_with_ladder(input, need, plan);
  } else {
    // Nothing is known of its cache: one conversation at a time.
    plan.decision = Decision::fits;
    plan.slots = 1;
    plan.context = need.requested;
    plan.estimated = true;
  }
  if (plan.decision != Decision::no) out.arguments = arguments(input, plan);
  return out;
}

}  // namespace gezel::capacity
