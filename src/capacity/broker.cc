#include "capacity/broker.h"

#include <fmt/format.h>

#include <charconv>

#include "capacity/arithmetic.h"

namespace gezel::capacity {

std::optional<LedgerKey> parse_ledger_key(std::string_view key) {
  const auto first = key.find(':'), last = key.rfind(':');
  if (first == key.npos || first == 0 || last <= first + 1) return std::nullopt;
  const std::string_view digits = key.substr(last + 1);
  LedgerKey out{std::string(key.substr(0, first)), std::string(key.substr(first + 1, last - first - 1))};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.replica);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  // Canonical: no sign, no leading zero.
  if (out.replica < 0 || (digits.size() > 1 && digits[0] == '0') || digits[0] == '-') return std::nullopt;
  return out;
}

std::string ledger_key(std::string_view engine, std::string_view model, int replica) {
  return fmt::format("{}:{}:{}", engine, model, replica);
}

namespace {

constexpr std::string_view kLent = "borrowed:";

}  // namespace

std::string lent_key(std::string_view engine_key) {
  return fmt::format("{}{}", kLent, engine_key);
}

std::string_view owner_of(std::string_view key) {
  return key.starts_with(kLent) ? key.substr(kLent.size()) : key;
}

Bytes shortfall(const BrokerView& view, Bytes others, Bytes bytes) {
  if (!view.enforced) return 0;
  const Bytes would_commit = plus(others, bytes);
  const Bytes over_budget = minus(would_commit, view.budget);
  // Beside others a model must not push the set off the card; at most all of them have to go.
  const Bytes off_the_card = others > 0 ? std::min(others, minus(would_commit, view.co_residency)) : 0;
  return std::max(over_budget, off_the_card);
}

void Broker::set_pools(const Budget& pools, Bytes total_ram) {
  settings_.pools = pools;
  settings_.total_ram = total_ram;
}

BrokerView Broker::view() const {
  const Budget& pools = settings_.pools;
  BrokerView out;
  out.enforced = !settings_.budget || *settings_.budget >= kLeastEnforcedBudget;
  out.budget = out.enforced ? settings_.budget.value_or(pools.budget_bytes) : pools.budget_bytes;
  out.fast_budget = out.enforced ? std::min(pools.fast_bytes, out.budget) : pools.fast_bytes;
  out.spillover = settings_.spillover.value_or(pools.kind != PoolKind::discrete_gpu);
  out.co_residency = out.spillover ? out.budget : std::min(out.budget, out.fast_budget);
  for (const auto& [key, entry] : ledger_) out.committed = plus(out.committed, entry.charged());
  return out;
}

Bytes Broker::committed_other(std::string_view key) const {
  Bytes sum = 0;
  for (const auto& [other, entry] : ledger_) {
    if (other != key && owner_of(other) != key) sum = plus(sum, entry.charged());
  }
  return sum;
}

Bytes Broker::committed_by_other_models(std::string_view engine, std::string_view model) const {
  Bytes sum = 0;
  for (const auto& [other, entry] : ledger_) {
    const auto parsed = parse_ledger_key(owner_of(other));
    if (!parsed || parsed->engine != engine || parsed->model != model) sum = plus(sum, entry.charged());
  }
  return sum;
}

Bytes Broker::shortfall(std::string_view key, Bytes bytes) const {
  return capacity::shortfall(view(), committed_other(key), bytes);
}

std::expected<void, Denial> Broker::reserve(const std::string& key, Bytes bytes, std::string_view name) {
  const BrokerView rules = view();
  const Bytes others = committed_other(key);
  if (capacity::shortfall(rules, others, bytes) == 0) {
    ledger_[key].granted = bytes;
    return {};
  }
  const Bytes would_commit = plus(others, bytes);
  const bool over_budget = would_commit > rules.budget;
  const Budget& pools = settings_.pools;
  Denial denial = over_budget ? deny_over_budget(name, bytes,
                                                 {.kind = pools.kind,
                                                  .budget = rules.budget,
                                                  .vram = std::min(pools.vram_bytes, rules.budget),
                                                  .ram_share = minus(rules.budget, pools.vram_bytes),
                                                  .total_ram = settings_.total_ram,
                                                  .committed_other = others})
                              : deny_co_residency(name);
  denial.key = key;
  denial.bytes = bytes;
  denial.would_commit = would_commit;
  denial.limit = over_budget ? rules.budget : rules.co_residency;
  return std::unexpected(std::move(denial));
}

void Broker::measure(const std::string& key, Bytes observed, std::optional<Bytes> granted) {
  const auto found = ledger_.find(key);
  if (found == ledger_.end()) return;
  found->second.measured_peak = std::max(found->second.measured_peak, observed);
  if (granted) found->second.granted = *granted;
}

void Broker::shrink(const std::string& key, Bytes granted) {
  const auto found = ledger_.find(key);
  if (found != ledger_.end()) found->second = {.granted = granted, .measured_peak = 0};
}

BrokerSnapshot Broker::snapshot() const {
  BrokerSnapshot out{.rules = view(),
                     .system_ram = settings_.total_ram,
                     .auto_budget = settings_.pools.budget_bytes,
                     .overridden = settings_.budget.has_value(),
                     .pools = settings_.pools,
                     .spillover_auto = settings_.pools.kind != PoolKind::discrete_gpu,
                     .spillover_overridden = settings_.spillover.has_value(),
                     .by_key = {ledger_.begin(), ledger_.end()}};
  std::ranges::sort(out.by_key, [](const auto& a, const auto& b) {
    return std::pair(b.second.charged(), a.first) < std::pair(a.second.charged(), b.first);
  });
  return out;
}

}  // namespace gezel::capacity
