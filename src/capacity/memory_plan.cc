#include "capacity/memory_plan.h"

#include <fmt/format.h>

#include <array>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr auto kDecisionNames = std::to_array<std::string_view>({"fits", "evict", "smaller", "no"});

// What a person reads for a binding.
constexpr auto kBindingTexts = std::to_array<std::string_view>({
    "",
    "the memory budget for models",
    "the memory that is free now",
    "the limit on automatic growth of caches",
    "the graphics memory beside the loaded models",
});

std::string parts(const PlanBytes& bytes) {
  std::string text = fmt::format("weights {}", format_bytes(bytes.weights));
  const auto add = [&](std::string_view name, Bytes value) {
    if (value > 0) text += fmt::format(", {} {}", name, format_bytes(value));
  };
  add("repacked copies", bytes.repack);
  add("KV cache", bytes.kv);
  add("buffers", bytes.compute);
  add("prompt cache", bytes.cache);
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Bytes PlanBytes::total() const {
  return plus(plus(plus(weights, repack), plus(kv, compute)), cache);
}

Bytes DryRun::total() const {
  return plus(plus(plus(weights, repack), plus(kv, compute)), process);
}

std::string_view decision_name(Decision decision) {
  return kDecisionNames[static_cast<std::size_t>(decision)];
}

std::string summary(const MemoryPlan& plan, std::string_view name) {
  if (plan.decision == Decision::no)
    return plan.denial ? plan.denial->error.message : fmt::format("{} does not fit.", name);
  std::string text =
      fmt::format("{} gets {} slot{} of {} tokens, with its cache in {}, and takes {}{} ({}).", name,
                  plan.slots, plan.slots == 1 ? "" : "s", plan.context, kv_type_name(plan.kv_type),
                  plan.estimated ? "about " : "", format_bytes(plan.reservation()), parts(plan.bytes));
  if (!plan.evicts.empty()) text += fmt::format(" Idle engines are stopped first: {}.", joined(plan.evicts));
  if (plan.below_floor)
    text += fmt::format(" That window is shorter than the usual {} tokens.", plan.inputs.minimum);
  if (plan.binding != Binding::none)
    text += fmt::format(" More is held back by {}.", kBindingTexts[static_cast<std::size_t>(plan.binding)]);
  return text;
}

std::string explain(const MemoryPlan& plan, std::string_view name) {
  const PlanInputs& in = plan.inputs;
  std::string text = summary(plan, name) + "\n";
  text += fmt::format("asked: {} slots of {} tokens, at least {}, the model's own {}\n", in.planned_slots,
                      in.requested, in.minimum, in.native);
  text +=
      fmt::format("costs: {} resident, {} per token and {} per slot of KV cache\n", format_bytes(in.resident),
                  format_bytes(in.kv_per_token), format_bytes(in.kv_fixed_per_slot));
  text += fmt::format("memory: budget {}, fast {}, beside others {}, held by others {}",
                      format_bytes(in.budget), format_bytes(in.fast_budget), format_bytes(in.co_residency),
                      format_bytes(in.committed_other));
  if (in.free_ram) text += fmt::format(", free now {}", format_bytes(*in.free_ram));
  if (in.vram > 0) text += fmt::format(", graphics memory {}", format_bytes(in.vram));
  text += "\n";
  for (const Alternative& tried : plan.alternatives) {
    text += fmt::format("{}: {} slot{} of {} tokens, {}, {}", tried.what, tried.slots,
                        tried.slots == 1 ? "" : "s", tried.context, format_bytes(tried.bytes),
                        tried.possible ? "possible" : "not possible");
    if (tried.binding != Binding::none) text += fmt::format(" ({})", binding_name(tried.binding));
    if (!tried.why.empty()) text += fmt::format(": {}", tried.why);
    text += "\n";
  }
  if (plan.largest_context > 0) text += fmt::format("one slot could hold {} tokens\n", plan.largest_context);
  if (!plan.offload.reason.empty()) text += fmt::format("GPU: {}\n", plan.offload.reason);
  return text;
}

}  // namespace gezel::capacity
