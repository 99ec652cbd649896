// Calibration of a loaded engine: when it may be measured, with which memory, and how a better setting comes
// into use.
#include <algorithm>

#include "base/log.h"
#include "engine/on_pool.h"
#include "engine_llama/embedded_core.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace gezel::engine_llama {

using engine::State;
using engine::StopReason;

namespace {

// One write at a time, the newest record next: an older one that is written later would undo it.
struct Saving {
  std::optional<CalibrationRecord> next;
  bool busy = false;
};

asio::awaitable<void> save(std::shared_ptr<Saving> saving, asio::any_io_executor pool,
                           std::filesystem::path home) {
  while (saving->next) {
    const CalibrationRecord record = *std::exchange(saving->next, std::nullopt);
    const auto kept =
        co_await engine::on_pool(pool, [home, record] { return CalibrationStore(home).keep(record); });
    if (!kept) log_warn("a calibration could not be kept", {{"reason", kept.error().message}});
  }
  saving->busy = false;
}

}  // namespace

Calibrator::Hooks Core::calibrator_hooks() {
  return {.send =
              [this](std::string frame) {
                if (launch_) launch_->send(std::move(frame));
              },
          .quiet_for = [this] { return quiet_for(); },
          .borrow = [this](Bytes bytes) { return borrow(bytes); },
          .keep =
              [this, saving = std::make_shared<Saving>()](CalibrationRecord record) {
                saving->next = std::move(record);
                if (std::exchange(saving->busy, true)) return;
                asio::co_spawn(parts_.loop, save(saving, parts_.pool, options_.home), asio::detached);
              },
          .use = [this](const costmodel::Setting& setting) { return use_setting(setting); }};
}

void Core::begin_calibration() {
  const auto cells = static_cast<Bytes>(granted_.slots) * static_cast<Bytes>(granted_.context_per_slot);
  calibrator_.loaded({.model_id = model_id_,
                      .facts = calibration_,
                      .setting = {granted_.flash_attention, granted_.kv_type, load_.threads},
                      .window = granted_.context_per_slot,
                      .token_bytes = std::max<Bytes>(1, granted_.kv_bytes / std::max<Bytes>(1, cells))});
}

// Another model that answers would be slowed down, and its work would be measured with this one's.
std::optional<Millis> Core::quiet_for() const {
  if (state_ != State::ready || busy() || reload_ != Reload::none || gives_way_ || manners_.yielding ||
      manners_.pressured)
    return std::nullopt;
  if (parts_.admission) {
    if (parts_.admission->holds() || parts_.admission->waiting() > 0) return std::nullopt;
    const auto state = parts_.admission->state_for(ledger_key());
    if (std::ranges::any_of(state.residents, [](const auto& resident) { return resident.busy; }))
      return std::nullopt;
  }
  return idle_.idle_for(parts_.clock.now(), parts_.clock.wall_now());
}

std::optional<std::unique_ptr<engine::Seat>> Core::borrow(Bytes bytes) {
  if (!parts_.admission) return std::unique_ptr<engine::Seat>();
  // Loads come first: at most half of what is free now.
  if (parts_.admission->machine().free_ram / 2 < bytes) return std::nullopt;
  auto seat = parts_.admission->borrow(ledger_key(), bytes, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->calibrator_.give_back();
  });
  if (!seat) return std::nullopt;
  return seat;
}

// The worker keeps its context; only another kind of attention needs a new one.
bool Core::use_setting(const costmodel::Setting& setting) {
  if (!quiet_for() || !may_reload()) return false;
  if (setting.flash_attention == granted_.flash_attention) {
    load_.threads = setting.threads;
    apply_manners();
    return true;
  }
  log_info("loading a model again", {{"model", model_id_}, {"reason", "it was measured to be faster so"}});
  load_again_ = true;
  stop_launch(StopReason::reload);
  return true;
}

std::string Core::calibration() const {
  return state_ == State::ready && calibration_.on() ? to_json(calibrator_.status()) : std::string();
}

}  // namespace gezel::engine_llama
