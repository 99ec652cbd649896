// For diagnoses (GEZEL_KV_VERIFY): the logits behind a prompt that was in part cached are compared with those
// of the same prompt computed whole. The slot is emptied for that and holds the cold run's cells afterwards,
// which the answer goes on with: with wrong cells in the cache it is still right.
#include <algorithm>

#include "base/log.h"
#include "kvcache/mode.h"
#include "scheduler/run.h"
#include "scheduler/scheduler.h"

namespace gezel::scheduler {

// The last call's last row is that of the prompt's last token, before and afterwards. False: the engine
// refused what it computes for every prompt.
bool Scheduler::verify(const Run& run) {
  const auto logits = decoder_.logits(static_cast<int>(rows_.size()) - 1);
  const std::vector<float> cached(logits.begin(), logits.end());
  decoder_.remove(run.slot, -1, -1);
  for (std::int64_t at = 0; at < run.target;) {
    const std::int64_t end = std::min(run.target, at + options_.batch_tokens);
    rows_.clear();
    for (; at < end; ++at) {
      const auto index = static_cast<std::size_t>(at);
      rows_.push_back({run.keys[index], static_cast<std::int32_t>(at), run.slot, at + 1 == run.target});
    }
    if (decoder_.decode(rows_) != llama::DecodeCode::ok) return false;
  }
  const auto found = kvcache::compare_logits(decoder_.logits(static_cast<int>(rows_.size()) - 1), cached);
  ++verified_;
  if (kvcache::acceptable(found, kvcache::kStartEpsilon)) return true;
  ++verify_failed_;
  log_error("a cached prompt went on differently from the same prompt computed whole",
            {{"tokens", std::to_string(run.prompt_tokens)},
             {"cached", std::to_string(run.cached)},
             {"from_slot", std::to_string(run.prompt.tiers.slot)},
             {"from_host", std::to_string(run.prompt.tiers.host)},
             {"from_disk", std::to_string(run.prompt.tiers.disk)},
             {"gap", std::to_string(found.cold_gap)},
             {"largest_change", std::to_string(found.largest_change)}});
  return true;
}

}  // namespace gezel::scheduler
