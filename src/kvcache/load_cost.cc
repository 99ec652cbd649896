#include "kvcache/load_cost.h"

namespace gezel::kvcache {
namespace {

constexpr double kWeight = 0.2;         // of a new observation
constexpr Bytes kTelling = 256 * kKiB;  // less says more about the call than about the rate
constexpr std::uint64_t kTellingTokens = 16;

void average(double& rate, double amount, double seconds) {
  if (seconds > 0) rate += kWeight * (amount / seconds - rate);
}

}  // namespace

void LoadRates::observe_load(Tier tier, Bytes bytes, double seconds) {
  if (bytes >= kTelling) average(tier == Tier::host ? host_ : disk_, static_cast<double>(bytes), seconds);
}

void LoadRates::observe_prefill(std::uint64_t tokens, double seconds) {
  if (tokens >= kTellingTokens) average(prefill_, static_cast<double>(tokens), seconds);
}

LoadRates LoadRates::without_disk() const {
  LoadRates rates = *this;
  rates.disk_ = 1e-9;
  return rates;
}

double LoadRates::load_ms(Tier tier, Bytes bytes) const {
  return 1000 * static_cast<double>(bytes) / bytes_per_second(tier);
}

double LoadRates::prefill_ms(std::uint64_t tokens) const {
  return 1000 * static_cast<double>(tokens) / prefill_;
}

}  // namespace gezel::kvcache
