#include "capacity/denial.h"

#include <fmt/format.h>

#include <array>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr auto kRuleNames =
    std::to_array<std::string_view>({"budget", "co-residency", "context", "stale-window", "generic"});

Denial denied(DenialRule rule, std::string message) {
  return {.rule = rule, .error = {ErrorKind::unavailable, "capacity-denied", std::move(message), {}}};
}

// "15.2 GiB"; sizes below a tenth of a GiB in their own unit, because "0.0 GiB" says nothing.
std::string gib(Bytes bytes) {
  if (bytes > 0 && bytes < kGiB / 10) return format_bytes(bytes);
  const Bytes tenths = round_share(bytes, 10, kGiB);
  return fmt::format("{}.{} GiB", tenths / 10, tenths % 10);
}

std::string composition(const BudgetFacts& facts) {
  if (facts.kind == PoolKind::discrete_gpu) {
    return fmt::format("{} of graphics memory and {} of this machine's {} of main memory", gib(facts.vram),
                       gib(facts.ram_share), gib(facts.total_ram));
  }
  const Bytes percent = facts.total_ram > 0 ? round_share(facts.budget, 100, facts.total_ram) : 0;
  return fmt::format("about {} % of this machine's {}", percent, gib(facts.total_ram));
}

}  // namespace

std::string_view denial_rule_name(DenialRule rule) {
  return kRuleNames[static_cast<std::size_t>(rule)];
}

Denial deny_over_budget(std::string_view name, Bytes needed, const BudgetFacts& facts) {
  std::string text = fmt::format(
      "{} needs {} of memory, and {} are free for models. Models may use {}, which is {}.", name, gib(needed),
      gib(minus(facts.budget, facts.committed_other)), gib(facts.budget), composition(facts));
  if (facts.committed_other > 0)
    text += fmt::format(" Other models hold {} of it.", gib(facts.committed_other));
  text +=
      " Choose a smaller or more strongly quantized model, or raise the memory budget for models at your own "
      "risk.";
  return denied(DenialRule::budget, std::move(text));
}

Denial deny_co_residency(std::string_view name) {
  return denied(
      DenialRule::co_residency,
      fmt::format("There is not enough graphics memory for {} beside the loaded models. This service "
                  "keeps models on the card, and every loaded model is busy. Wait until one of them "
                  "is idle, or allow models to spill over into main memory.",
                  name));
}

Denial deny_context(std::string_view name, Tokens required, Tokens possible, std::string_view reason) {
  return denied(
      DenialRule::context,
      fmt::format(
          "{} is to run with a context window of {} tokens, and one slot could safely hold {}. {} Free "
          "memory or choose another model; the service does not silently run with a shorter window.",
          name, required, possible <= 1 ? 0 : possible, reason));
}

Denial deny_stale_window(std::string_view name, Tokens resident, Tokens wanted) {
  Denial out =
      denied(DenialRule::stale_window,
             fmt::format(
                 "{} is loaded with a context window of {} tokens; by the present settings it is to have {}. "
                 "Restart this model's engine.",
                 name, resident, wanted));
  out.reason = "resident-below-minimum";
  return out;
}

Denial deny_generically() {
  return denied(DenialRule::generic, "There is not enough memory to run this model right now.");
}

Error engine_busy(std::string_view name) {
  return {
      ErrorKind::unavailable,
      "engine-busy",
      fmt::format("There is no room for {} until another model has finished its work. Try again in a moment.",
                  name),
      {}};
}

std::string denial_record(const Denial& denial) {
  return fmt::format("key={} bytes={} would_commit={} limit={} rule={}", denial.key, denial.bytes,
                     denial.would_commit, denial.limit, denial_rule_name(denial.rule));
}

std::string_view context_sizing_status(const Denial& denial) {
  return denial.rule == DenialRule::stale_window ? "restart-required" : "insufficient-memory";
}

}  // namespace gezel::capacity
