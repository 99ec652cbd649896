#include "capacity/evict.h"

#include <tuple>

#include "capacity/arithmetic.h"

namespace gezel::capacity {
namespace {

constexpr Bytes kLeastFree = kGiB;
constexpr std::uint64_t kFreePercent = 8;

}  // namespace

std::vector<Resident> idle_victims(std::vector<Resident> residents, const std::string& own_key) {
  std::erase_if(residents, [&](const Resident& r) { return r.busy || r.draining || r.key == own_key; });
  std::ranges::sort(residents, [](const Resident& a, const Resident& b) {
    return std::tie(a.hits_last_minute, a.last_used_ms, a.key) <
           std::tie(b.hits_last_minute, b.last_used_ms, b.key);
  });
  return residents;
}

Victims choose_victims(const std::vector<Resident>& residents, Bytes shortfall, const std::string& own_key) {
  Victims out;
  if (shortfall == 0) return out;
  for (const Resident& victim : idle_victims(residents, own_key)) {
    if (out.freed >= shortfall) break;
    out.stop.push_back(victim.key);
    out.freed = plus(out.freed, victim.bytes);
  }
  if (!out.stop.empty()) return out;
  const Resident* oldest = nullptr;
  for (const Resident& resident : residents) {
    if (resident.key == own_key || resident.draining || !resident.busy) continue;
    if (!oldest || resident.last_used_ms < oldest->last_used_ms) oldest = &resident;
  }
  if (oldest) out.drain = oldest->key;
  return out;
}

DrainStep drain_step(std::int64_t since_ms, std::int64_t now_ms, bool busy) {
  if (!busy) return DrainStep::stop;
  return now_ms - since_ms >= kDrainCapMs ? DrainStep::give_up : DrainStep::wait;
}

bool devices_pressured(const std::vector<DeviceMemory>& devices) {
  Bytes total = 0, free = 0;
  for (const DeviceMemory& device : devices) {
    if (!device.total || !device.used) continue;
    total = plus(total, *device.total);
    free = plus(free, minus(*device.total, *device.used));
  }
  return total > 0 && free <= std::max(kLeastFree, floor_share(total, kFreePercent, 100));
}

IdleStep idle_step(const IdleInput& input) {
  if (input.busy) return IdleStep::keep;
  const std::int64_t idle = input.now_ms - input.last_used_ms;
  const bool times_out = input.idle_timeout_ms > 0;
  const std::int64_t timeout = std::max(input.idle_timeout_ms, kSmallestIdleTimeoutMs);
  if (times_out && idle >= timeout) return IdleStep::stop_idle;
  const std::int64_t grace = times_out ? std::min(input.pressure_grace_ms, timeout) : input.pressure_grace_ms;
  if (input.pressured && idle >= grace) return IdleStep::stop_pressure;
  if (times_out && !input.flushed && idle >= timeout / 2) return IdleStep::flush;
  return IdleStep::keep;
}

}  // namespace gezel::capacity
