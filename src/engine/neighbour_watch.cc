#include "engine/neighbour_watch.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "engine/on_pool.h"

namespace gezel::engine {

NeighbourWatch::NeighbourWatch(Parts parts) : parts_(std::move(parts)), timer_(parts_.timers->make()) {}

void NeighbourWatch::start(std::function<std::vector<int>()> ours, std::function<void(Manners)> tell) {
  ours_ = std::move(ours);
  tell_ = std::move(tell);
  since_ = parts_.clock.wall_now();
  running_ = true;
  look_later();
}

void NeighbourWatch::stop() {
  running_ = false;
  timer_->cancel();
}

void NeighbourWatch::look_later() {
  timer_->arm(parts_.clock.now() + parts_.look, [weak = weak_from_this()] {
    if (auto self = weak.lock())
      asio::co_spawn(self->parts_.loop, [self] { return self->look(); }, asio::detached);
  });
}

asio::awaitable<void> NeighbourWatch::look() {
  const auto times = co_await on_pool(
      parts_.pool, [read = parts_.read, pids = ours_()]() -> std::optional<system::CpuTimes> {
        try {
          return read(pids);
        } catch (const std::exception& thrown) {
          // One look without figures, not the end of the watch.
          log_debug("the processors' use could not be read", {{"reason", thrown.what()}});
          return std::nullopt;
        }
      });
  if (!running_) co_return;
  others_ = last_ && times ? system::others_permille(*last_, *times) : std::nullopt;
  last_ = times;
  const auto now = std::chrono::duration_cast<Millis>(parts_.clock.now().time_since_epoch()).count();
  const bool before = state_.yielding;
  state_ = capacity::next_neighbour(state_, others_, now, parts_.patience);
  if (state_.yielding != before) {
    since_ = parts_.clock.wall_now();
    if (state_.yielding)
      log_info("other programs want the processors: models step back",
               {{"others", fmt::format("{} %", others_.value_or(0) / 10)}});
    else
      log_info("other programs left the processors: models use their full share again");
  }
  const Manners manners{.yielding = state_.yielding, .pressured = parts_.pressured()};
  if (manners != std::exchange(told_, manners)) tell_(manners);
  look_later();
}

}  // namespace gezel::engine
