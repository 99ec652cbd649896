#include "capacity/budget.h"

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr Bytes kLargeMachine = 96 * kGiB;   // its share is larger, and what it keeps back is capped
constexpr Bytes kKeptBack = 16 * kGiB;       // the most that a unified machine keeps for everything else
constexpr Bytes kAlwaysKeptBack = 4 * kGiB;  // the least
constexpr Bytes kShareCeiling = 96 * kGiB;   // main memory is slow; more of it for one model is no help
constexpr Bytes kSmallReserve = 128 * kMiB;  // the least that a small machine keeps
constexpr Bytes kKvCeilingFloor = 8 * kGiB;

bool is_unified(const BudgetInput& input) {
  if (input.unified) return *input.unified;
  return input.apple_arm || (input.vram > 0 && Wide{input.vram} * 4 >= Wide{input.ram} * 3);
}

}  // namespace

std::string_view pool_kind_name(PoolKind kind) {
  switch (kind) {
    case PoolKind::unified:
      return "unified";
    case PoolKind::discrete_gpu:
      return "discrete-gpu";
    case PoolKind::system_ram:
      return "system-ram";
  }
  return "";
}

Bytes small_machine_reserve(Bytes ram) {
  return std::max(kSmallReserve, ram / 10);
}

Budget plan_budget(const BudgetInput& input) {
  const bool high = input.ram >= kLargeMachine;
  const bool unified = is_unified(input);
  const bool discrete = input.vram > 0 && !unified;
  const Bytes unified_fraction = floor_share(input.ram, high ? 8 : 7, 10);
  const Bytes all_but_a_little = minus(input.ram, kAlwaysKeptBack);

  Budget out;
  out.kind = unified ? PoolKind::unified : discrete ? PoolKind::discrete_gpu : PoolKind::system_ram;
  const Bytes other_share = std::min(floor_share(input.ram, high ? 8 : 6, 10), kShareCeiling);
  out.ram_share_bytes =
      unified ? std::min(std::max(unified_fraction, minus(input.ram, kKeptBack)), all_but_a_little)
              : other_share;
  const Bytes by_concurrency =
      unified ? std::min({unified_fraction, all_but_a_little, kShareCeiling}) : other_share;
  // From the limit on, the share of the largest small machine is the least.
  const bool small = input.ram < kSmallMachineBytes;
  const Bytes considered = std::min(input.ram, kSmallMachineBytes);
  const Bytes least = minus(considered, small_machine_reserve(considered));
  out.ram_share_bytes = small ? least : std::max(out.ram_share_bytes, least);
  out.vram_bytes = discrete ? floor_share(input.vram, 95, 100) : 0;
  out.budget_bytes = plus(out.ram_share_bytes, out.vram_bytes);
  out.fast_bytes = discrete ? out.vram_bytes : out.budget_bytes;
  out.concurrency_bytes = discrete ? out.vram_bytes : small ? least : std::max(by_concurrency, least);
  if (!input.override_bytes) return out;

  out.budget_bytes = *input.override_bytes;
  out.fast_bytes = discrete ? std::min(out.vram_bytes, out.budget_bytes) : out.budget_bytes;
  out.concurrency_bytes = out.fast_bytes;
  out.ram_share_bytes = minus(out.budget_bytes, out.vram_bytes);
  return out;
}

std::optional<Bytes> parse_gib(std::string_view text) {
  // digits [. digits]; nine decimals are finer than a byte of a GiB.
  constexpr int kMaxDecimals = 9;
  Wide digits = 0;
  std::uint64_t scale = 1;
  bool any = false, point = false;
  int decimals = 0;
  for (char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    any = true;
    if (point && decimals++ >= kMaxDecimals) continue;
    digits = digits * 10 + static_cast<unsigned>(c - '0');
    if (point) scale *= 10;
    if (digits / scale > kMaxBytes / kGiB) return std::nullopt;
  }
  const Bytes bytes = round_div(digits * kGiB, scale);
  return any && bytes > 0 ? std::optional(bytes) : std::nullopt;
}

Bytes auto_kv_ceiling(Bytes fast_bytes, std::optional<Bytes> configured) {
  return configured.value_or(std::max(kKvCeilingFloor, fast_bytes / 4));
}

Bytes default_prompt_cache(Bytes ram) {
  return (ram < 16 * kGiB ? 2 : ram < 32 * kGiB ? 4 : ram < 64 * kGiB ? 8 : 16) * kGiB;
}

}  // namespace gezel::capacity
