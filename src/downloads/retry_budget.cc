#include "downloads/retry_budget.h"

#include <algorithm>

namespace gezel::downloads {

std::optional<Millis> RetryBudget::failed(Bytes high_water) {
  ++attempts_;
  // Each failure is measured from the one before: many attempts of one byte are no headway together.
  const bool headway = high_water >= mark_ + rules_.headway;
  mark_ = std::max(mark_, high_water);
  stuck_ = headway && rules_.without_headway > 1 ? 0 : stuck_ + 1;
  if (stuck_ >= rules_.without_headway || attempts_ >= rules_.attempts) return std::nullopt;
  return delay();
}

int RetryBudget::most_attempts() const {
  return std::min(rules_.attempts, attempts_ + rules_.without_headway - stuck_);
}

Millis RetryBudget::delay() {
  const auto step = static_cast<std::size_t>(std::max(0, stuck_ - 1));
  const auto base = rules_.backoff[std::min(step, rules_.backoff.size() - 1)].count();
  // Many clients that lost the same server must not come back in step.
  unsigned char bytes[2];
  entropy_.fill(bytes, sizeof bytes);
  const auto random = bytes[0] * 256 + bytes[1];  // 0..65535
  const auto range = base * rules_.jitter_percent / 100;
  return Millis(base - range + 2 * range * random / 65535);
}

}  // namespace gezel::downloads
