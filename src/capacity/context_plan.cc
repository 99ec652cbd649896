#include "capacity/context_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace gezel::capacity {
namespace {

Bytes needed_bytes(const ContextRequest& request, int slots, Tokens context) {
  if (request.geometry) {
    return kv_bytes(*request.geometry,
                    {.type = request.type, .slots = slots, .micro_batch = request.micro_batch}, context);
  }
  return heuristic_kv_bytes(request.weights, request.type, context * slots);
}

Result<> check_wishes(const ContextRequest& request) {
  if (request.slots && (*request.slots < 1 || *request.slots > kMaxSlots)) {
    return fail(ErrorKind::invalid, "invalid-request",
                fmt::format("slots is {}; 1 to {} are possible", *request.slots, kMaxSlots), "slots");
  }
  if (request.context && (*request.context < 1 || *request.context > kMaxWindow)) {
    return fail(ErrorKind::invalid, "invalid-request",
                fmt::format("ctx is {} tokens; 1 to {} are possible", *request.context, kMaxWindow), "ctx");
  }
  return {};
}

std::unexpected<Error> denied(const ContextRequest& request, const ContextPlan& smallest) {
  std::string remedy = "Free memory";
  if (request.slots && *request.slots > 1) remedy += ", lower --slots";
  if (request.context) remedy += ", lower --ctx";
  if (!request.slots && !request.context)
    remedy += fmt::format(", pass a --ctx below {}", smallest.context_per_slot);
  return fail(
      ErrorKind::unavailable, "capacity-denied",
      fmt::format(
          "Not enough memory for the KV cache: {} slot{} of {} tokens need{} {} ({} bytes), and at most a "
          "quarter of the {} ({} bytes) that are available may be used for it, which is {}. {}, or use a "
          "smaller model.",
          smallest.slots, smallest.slots == 1 ? "" : "s", smallest.context_per_slot,
          smallest.slots == 1 ? "s" : "", format_bytes(smallest.kv_bytes), smallest.kv_bytes,
          format_bytes(request.available), request.available, format_bytes(smallest.budget), remedy));
}

}  // namespace

Result<ContextPlan> plan_context(const ContextRequest& request) {
  GEZEL_CHECK(check_wishes(request));
  ContextPlan plan;
  plan.budget = static_cast<Bytes>(static_cast<unsigned __int128>(request.available) * kKvShareNumerator /
                                   kKvShareDenominator);
  plan.estimated = !request.geometry;
  plan.slots = request.slots.value_or(kDefaultSlots);
  const Tokens wanted = request.context.value_or(kDefaultWindow);
  plan.context_per_slot = wanted;
  if (request.trained && *request.trained > 0 && *request.trained < wanted) {
    plan.context_per_slot = *request.trained;
    if (request.context) {
      plan.note =
          fmt::format("The model was trained for {} tokens of context; {} were asked for and {} are used.",
                      *request.trained, wanted, *request.trained);
    }
  }

  const int slots_at_first = plan.slots;
  const Tokens context_at_first = plan.context_per_slot;
  for (;;) {
    plan.kv_bytes = needed_bytes(request, plan.slots, plan.context_per_slot);
    if (plan.kv_bytes <= plan.budget) break;
    if (!request.slots && plan.slots > 1) {
      plan.slots /= 2;
    } else if (!request.context && plan.context_per_slot > kSmallestWindow) {
      plan.context_per_slot = std::max(plan.context_per_slot / 2, kSmallestWindow);
    } else {
      return denied(request, plan);
    }
  }
  plan.reduced = plan.slots != slots_at_first || plan.context_per_slot != context_at_first;
  if (plan.reduced) {
    plan.note += fmt::format("{}{} slots of {} tokens were reduced to {} of {}: {} of memory are available.",
                             plan.note.empty() ? "" : " ", slots_at_first, context_at_first, plan.slots,
                             plan.context_per_slot, format_bytes(request.available));
  }
  return plan;
}

}  // namespace gezel::capacity
