#include "capacity/swa.h"

#include <fmt/format.h>

#include "capacity/arithmetic.h"

namespace gezel::capacity {

SwaDecision decide_swa(const SwaInput& input) {
  if (input.configured) return {.full = *input.configured};
  if (input.catalog) return {.full = *input.catalog};
  if (!input.gemma) return {};
  if (!input.full_kv) return {.full = true};

  const Bytes available = minus(input.fast_budget, input.committed_other);
  const bool fits = plus(input.resident, *input.full_kv) <= available;
  const bool over_ceiling = *input.full_kv > input.kv_ceiling;
  const Ladder& ladder = input.ladder;
  const bool short_of_memory =
      !fits || !ladder.satisfied || ladder.slots < input.planned_slots || ladder.clamped;
  if (!short_of_memory && !over_ceiling) return {.full = true};

  SwaDecision out{.declined = true};
  constexpr std::string_view kEffect =
      "The windowed cache holds the context; prefix reuse across requests is unavailable.";
  if (!short_of_memory) {
    out.note = {
        NoteLevel::info,
        fmt::format("A full sliding-window cache for {} tokens would take {}, above the {} that caches "
                    "may take by themselves. {}",
                    input.total_tokens, format_bytes(*input.full_kv), format_bytes(input.kv_ceiling),
                    kEffect)};
    return out;
  }
  const std::string detail =
      !fits ? fmt::format(
                  "Weights and a full sliding-window cache would take {}, and {} of fast memory are "
                  "available.",
                  format_bytes(plus(input.resident, *input.full_kv)), format_bytes(available))
      : ladder.reason.empty() ? "A full sliding-window cache would leave room for fewer slots."
                              : fmt::format("With a full sliding-window cache, {}", ladder.reason);
  out.note = {NoteLevel::warn, fmt::format("{} {}", detail, kEffect)};
  return out;
}

}  // namespace gezel::capacity
