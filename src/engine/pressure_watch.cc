#include "engine/pressure_watch.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>

#include "base/log.h"
#include "engine/on_pool.h"

namespace gezel::engine {

using capacity::PressureStep;

PressureWatch::PressureWatch(Parts parts) : parts_(std::move(parts)), timer_(parts_.timers->make()) {}

void PressureWatch::start() {
  running_ = true;
  look_later();
}

void PressureWatch::stop() {
  running_ = false;
  timer_->cancel();
}

void PressureWatch::look_later() {
  timer_->arm(parts_.clock.now() + kPressureLook, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    asio::co_spawn(
        self->parts_.loop, [self] { return self->look(); },
        [self](const std::exception_ptr& problem) {
          // One look without figures, not the end of the watch: what it holds up would wait for ever.
          if (problem) log_debug("the machine's memory could not be looked at");
          if (self->running_) self->look_later();
        });
  });
}

asio::awaitable<void> PressureWatch::look() {
  const auto sample = co_await on_pool(parts_.pool, [read = parts_.sample] { return read(); });
  if (!running_) co_return;
  const auto now = std::chrono::duration_cast<Millis>(parts_.clock.now().time_since_epoch()).count();
  const auto before = state_.step;
  state_ = capacity::next_pressure(state_, sample, now);
  if (state_.step != before) {
    if (state_.pressured())
      log_warn("memory is short", {{"source", std::string(capacity::pressure_source_name(state_.source))},
                                   {"step", std::string(capacity::pressure_step_name(state_.step))}});
    else
      log_info("memory is no longer short");
    parts_.admission->hold(state_.step < PressureStep::refuse_loads
                               ? std::string()
                               : fmt::format("waiting until this machine has memory again ({})",
                                             capacity::pressure_source_name(state_.source)));
  }
  if (state_.step >= PressureStep::stop_idle_engines) parts_.admission->unload_idle();
}

}  // namespace gezel::engine
