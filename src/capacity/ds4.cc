#include "capacity/ds4.h"

#include <fmt/format.h>

#include <array>

#include "capacity/arithmetic.h"
#include "capacity/resident.h"

namespace gezel::capacity {
namespace {

constexpr Bytes kKeptBack = 32 * kGiB, kFullReservation = 96 * kGiB;
constexpr Bytes kLargeWindowRam = 192 * kGiB;
constexpr Tokens kLargeWindow = 262'144, kWindow = 131'072;

struct CacheTier {
  Bytes from;
  std::uint64_t gib;
};
constexpr auto kCacheTiers = std::to_array<CacheTier>({{120 * kGiB, 64}, {88 * kGiB, 48}, {0, 32}});

bool may_be_fully_resident(const Ds4Input& input) {
  return input.arm64 && input.platform != Platform::windows && input.weights &&
         plus(*input.weights, kKeptBack) <= input.total_ram;
}

Tokens launch_context(const Ds4Input& input) {
  const Tokens tier = input.total_ram >= kLargeWindowRam ? kLargeWindow : kWindow;
  if (input.max_launch_context && *input.max_launch_context < input.floor) return *input.max_launch_context;
  const Tokens resolved = input.context.value_or(std::min(tier, input.max_launch_context.value_or(tier)));
  return std::max(input.floor, resolved);
}

std::uint64_t wanted_cache_gib(const Ds4Input& input) {
  if (input.cache_experts_gib) return *input.cache_experts_gib;
  if (input.cache_experts) return *input.cache_experts / kGiB;
  return std::ranges::find_if(kCacheTiers, [&](const CacheTier& t) { return input.total_ram >= t.from; })
      ->gib;
}

}  // namespace

Bytes rebased_resident(Bytes resident, std::optional<Bytes> kv_per_token, std::optional<Tokens> measured_at,
                       Tokens context) {
  if (!kv_per_token || !measured_at || *measured_at <= 0) return resident;
  const Bytes fixed = minus(resident, times(*kv_per_token, static_cast<std::uint64_t>(*measured_at)));
  return plus(fixed, times(*kv_per_token, static_cast<std::uint64_t>(context)));
}

Result<Ds4Plan> plan_ds4(const Ds4Input& input) {
  Ds4Plan out;
  out.streaming = input.streaming.value_or(true) || !may_be_fully_resident(input);
  out.memory.decision = Decision::fits;
  out.memory.slots = 1;
  out.memory.context = launch_context(input);
  out.memory.largest_context = out.memory.context;
  out.memory.estimated = !input.resident;
  const Bytes measured =
      input.resident.value_or(resident_bytes(EngineFamily::ds4, input.weights.value_or(kKeptBack)));
  const Bytes resident =
      rebased_resident(measured, input.kv_per_token, input.resident_context, out.memory.context);
  out.memory.bytes.weights = out.streaming ? resident : std::max(resident, kFullReservation);
  out.memory.inputs = {.requested = out.memory.context,
                       .minimum = input.floor,
                       .native = out.memory.context,
                       .planned_slots = 1,
                       .resident = out.memory.bytes.weights};

  if (out.streaming) {
    const std::uint64_t wanted = wanted_cache_gib(input);
    const Bytes fixed = minus(input.resident.value_or(0), input.cache_experts.value_or(0));
    const std::uint64_t safe = minus(input.total_ram, plus(fixed, kKeptBack)) / kGiB;
    if (safe < 1) {
      return fail(
          ErrorKind::unavailable, "capacity-denied",
          fmt::format("This machine's {} leave no memory to cache experts: {} are kept for everything "
                      "else and {} are needed beside them.",
                      format_bytes(input.total_ram), format_bytes(kKeptBack), format_bytes(fixed)));
    }
    out.cache_experts_gib = std::clamp<std::uint64_t>(wanted, 1, safe);
    out.clamped = out.cache_experts_gib < wanted;
  }

  out.arguments = {input.platform == Platform::macos ? "--metal" : "--cuda",
                   "--ctx",
                   std::to_string(out.memory.context),
                   "--kv-disk-dir",
                   input.kv_disk_dir,
                   "--kv-disk-space-mb",
                   std::to_string(input.kv_disk_mib)};
  if (out.streaming) {
    out.arguments.insert(out.arguments.end(), {"--ssd-streaming", "--ssd-streaming-cache-experts",
                                               fmt::format("{}GB", out.cache_experts_gib)});
  }
  return out;
}

}  // namespace gezel::capacity
