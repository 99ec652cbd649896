#include "engine/gpu_gate.h"

#include <fmt/format.h>

#include "base/log.h"
#include "engine/on_pool.h"

namespace gezel::engine {

GpuGate::GpuGate(Parts parts)
    : parts_(std::move(parts)),
      arbiter_(
          std::make_shared<Arbiter>(Arbiter::Parts{.loop = parts_.loop,
                                                   .clock = parts_.clock,
                                                   .timers = parts_.timers,
                                                   .policy = parts_.policy,
                                                   .admit = [safety = parts_.safety](Arbiter::Wanted wanted) {
                                                     return safety->admit(std::move(wanted));
                                                   }})) {}

boost::asio::awaitable<EngineResult<>> GpuGate::enter(GpuSlot slot, Arbiter::Wanted wanted) {
  const auto arbiter = arbiter_;
  const auto panic = co_await on_pool(parts_.pool, [guard = parts_.panics, now = parts_.clock.wall_now()] {
    return recent_gpu_panic(guard, now);
  });
  if (panic) {
    log_warn("nothing is started on the GPU", {{"report", panic->report.string()}, {"found", panic->mark}});
    co_return std::unexpected(make_error(
        "gpu-panic-cooldown",
        fmt::format(
            "A GPU driver took this machine down at {} ({}). Nothing is started on the GPU for {} min; "
            "GEZEL_GPU_PANIC_GUARD=off does not wait.",
            iso_time(panic->at), panic->report.filename().string(),
            parts_.panics.cooldown / Millis(60'000))));
  }
  co_return co_await arbiter->acquire(slot, std::move(wanted));
}

}  // namespace gezel::engine
