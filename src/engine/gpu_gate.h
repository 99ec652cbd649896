// engine/gpu_gate.h
//
// What stands in front of everything that starts on a GPU, in this order: no recent panic of the machine, the
// GPU is this slot's, and it is not too warm. The caller plans its memory afterwards: what was free before
// may have been held by an engine that is gone now.
#pragma once
#include <memory>

#include "engine/arbiter.h"
#include "engine/device_safety.h"
#include "engine/panic_guard.h"

namespace gezel::engine {

class GpuGate {
 public:
  struct Parts {
    boost::asio::any_io_executor loop, pool;
    const Clock& clock;
    std::shared_ptr<Timers> timers;
    PanicGuard panics;
    GpuPolicy policy = GpuPolicy::swap;  // resolved
    std::shared_ptr<DeviceSafety> safety;
  };
  explicit GpuGate(Parts parts);

  // Errors: `gpu-panic-cooldown`, `device-unsafe`, `cancelled`.
  boost::asio::awaitable<EngineResult<>> enter(GpuSlot slot, Arbiter::Wanted wanted);
  Arbiter& arbiter() { return *arbiter_; }
  DeviceSafety& safety() { return *parts_.safety; }

 private:
  Parts parts_;
  std::shared_ptr<Arbiter> arbiter_;
};

}  // namespace gezel::engine
