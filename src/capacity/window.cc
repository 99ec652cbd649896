#include "capacity/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace gezel::capacity {
namespace {

bool possible(const MemoryPlan& plan) {
  return plan.decision != Decision::no;
}

std::string_view in_the_way(Binding binding) {
  switch (binding) {
    case Binding::budget:
      return "what models may use of this machine's memory";
    case Binding::live_memory:
      return "the memory that is free at the moment";
    case Binding::kv_ceiling:
      return "the limit on caches";
    case Binding::co_residency:
      return "the graphics memory that the other models leave";
    case Binding::none:
      break;
  }
  return "memory";
}

}  // namespace

MemoryPlan plan_window(LaunchInput input, Tokens needed) {
  input.settings.context.needed = needed > 0 ? std::optional(needed) : std::nullopt;
  return plan_launch(input);
}

WindowReach window_reach(const LaunchInput& input) {
  const ContextRequirement need = launch_requirement(input);
  WindowReach out{
      .limit = need.limit, .native = input.model.native.value_or(0), .named = need.explicitly_asked};
  const MemoryPlan whole = plan_window(input, need.limit);
  if (possible(whole)) {
    out.largest = whole.context;
    return out;
  }
  out.binding = whole.binding;
  // One slot with every idle model gone: the ladder's word, which the broker may still refuse.
  if (const Tokens most = std::min(whole.largest_context, need.limit); most > 1) {
    if (const MemoryPlan plan = plan_window(input, most); possible(plan)) out.largest = plan.context;
  }
  if (out.largest == 0) {
    if (const MemoryPlan usual = plan_window(input, 0); possible(usual)) out.largest = usual.context;
  }
  return out;
}

Tokens reload_target(const WindowReach& reach, Tokens loaded, Tokens needed) {
  if (needed <= loaded || needed > reach.largest) return 0;
  return std::min(reach.largest, std::max(needed, loaded + loaded / 4));
}

bool outgrown(Tokens planned, const MemoryPlan& now) {
  if (!possible(now) || !now.evicts.empty() || planned >= now.inputs.requested) return false;
  return now.context - planned >= planned / 4 && now.context > planned;
}

std::string window_shortage(std::string_view name, Tokens needed, Tokens loaded, const WindowReach& reach) {
  if (needed > reach.limit && reach.named)
    return fmt::format("The service was told to give {} a window of {} tokens at most.", name, reach.limit);
  if (needed > reach.limit) return fmt::format("The longest window of {} has {} tokens.", name, reach.limit);
  return fmt::format("Of the {} tokens that {} can have, {} fit now; {} stands in the way of more.",
                     reach.limit, name, std::max(reach.largest, loaded), in_the_way(reach.binding));
}

}  // namespace gezel::capacity
