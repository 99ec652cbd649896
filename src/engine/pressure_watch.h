// engine/pressure_watch.h
//
// Looks at the machine's memory every two seconds and steps back while it is short (capacity/pressure.h has
// the limits): idle engines are unloaded, then nothing new is loaded. What runs goes on.
#pragma once
#include <functional>
#include <memory>

#include "capacity/pressure.h"
#include "engine/admission.h"

namespace gezel::engine {

inline constexpr Millis kPressureLook{2'000};

class PressureWatch : public std::enable_shared_from_this<PressureWatch> {
 public:
  struct Parts {
    boost::asio::any_io_executor loop, pool;
    const Clock& clock;
    std::shared_ptr<Timers> timers;
    std::function<capacity::PressureSample()> sample;  // called on the pool; may read files
    std::shared_ptr<Admission> admission;
  };
  explicit PressureWatch(Parts parts);

  void start();
  void stop();  // nothing is looked at or done any more
  const capacity::PressureState& state() const { return state_; }

 private:
  void look_later();
  boost::asio::awaitable<void> look();

  Parts parts_;
  capacity::PressureState state_;
  std::unique_ptr<Timer> timer_;
  bool running_ = false;
};

}  // namespace gezel::engine
