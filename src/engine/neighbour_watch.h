// engine/neighbour_watch.h
//
// Good-neighbour mode: looks every two seconds at how much of the processors other programs use and lets the
// models step back while that is much (capacity/neighbour.h has the limits). Neither this process nor its
// workers count as others.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "capacity/neighbour.h"
#include "engine/engine.h"
#include "engine/timers.h"
#include "system/cpu_share.h"

namespace gezel::engine {

inline constexpr Millis kNeighbourLook{2'000};

class NeighbourWatch : public std::enable_shared_from_this<NeighbourWatch> {
 public:
  struct Parts {
    boost::asio::any_io_executor loop, pool;
    const Clock& clock;
    std::shared_ptr<Timers> timers;
    // Called on the pool with the processes that are ours; may read files.
    std::function<std::optional<system::CpuTimes>(std::span<const int>)> read;
    std::function<bool()> pressured;  // is memory short? Called on the loop
    capacity::NeighbourPatience patience = {};
    Millis look = kNeighbourLook;
  };
  explicit NeighbourWatch(Parts parts);

  // `ours` names the processes of this service now; `tell` is called when what is asked of models changed.
  // Both on the loop, until stop().
  void start(std::function<std::vector<int>()> ours, std::function<void(Manners)> tell);
  void stop();

  bool yielding() const { return state_.yielding; }
  WallTime since() const { return since_; }                       // of yielding(), or of the start
  std::optional<int> others_permille() const { return others_; }  // at the last look; nothing: unknown

 private:
  void look_later();
  boost::asio::awaitable<void> look();

  Parts parts_;
  std::function<std::vector<int>()> ours_;
  std::function<void(Manners)> tell_;
  std::optional<system::CpuTimes> last_;
  capacity::NeighbourState state_;
  std::optional<int> others_;
  Manners told_;
  WallTime since_{};
  std::unique_ptr<Timer> timer_;
  bool running_ = false;
};

}  // namespace gezel::engine
