// kvcache/load_cost.h
//
// Is it faster to bring rows back or to compute them again (spec 40 section 11.6, match 4)?
#pragma once
#include <cstdint>

#include "base/bytes.h"
#include "kvcache/tree.h"

namespace gezel::kvcache {

// Moving averages of what was measured here; the start values hold until then.
class LoadRates {
 public:
  void observe_load(Tier tier, Bytes bytes, double seconds);
  void observe_prefill(std::uint64_t tokens, double seconds);
  // Bytes per second. From disk also the copy into the slot is paid, which is small beside it.
  double bytes_per_second(Tier tier) const { return tier == Tier::host ? host_ : disk_; }
  double prefill_tokens_per_second() const { return prefill_; }
  double load_ms(Tier tier, Bytes bytes) const;
  // The same, with a disk from which nothing is worth loading.
  LoadRates without_disk() const;
  double prefill_ms(std::uint64_t tokens) const;

 private:
  double host_ = 4e9, disk_ = 500e6, prefill_ = 1000;
};

}  // namespace gezel::kvcache
