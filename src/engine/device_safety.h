// engine/device_safety.h
//
// May a GPU workload start while the GPU is this warm (spec 30 section 10)? Running work is never
// interrupted, and no clock, fan or power limit is touched.
//
// The policy is pure: a sample and the time waited in, a verdict out. DeviceSafety asks it for everybody who
// wants to start something: those who wait at the same time share one wait and its verdict.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/timers.h"
#include "engine/wakeup.h"
#include "system/gpu_health.h"
#include "system/gpu_users.h"

namespace gezel::engine {

enum class SafetyMode { off, observe, guard };
std::string_view safety_mode_name(SafetyMode mode);

inline constexpr double kHardLimitC = 105;  // above it nothing starts, also while only observing

struct SafetySettings {
  SafetyMode mode = SafetyMode::observe;
  double max_start_c = 80, resume_c = 75;  // once too warm, it has to cool to the second
  double min_margin_c = 8;                 // to the point where the device slows itself down
  Millis poll{5'000}, max_wait{600'000};
  int healthy_samples = 3;  // in a row, after one that was too warm
  bool block_without_readings = false;
};
// GEZEL_DEVICE_SAFETY_<name>; "": not set. Values that are none, or out of range, are left out and named in
// `ignored`.
SafetySettings safety_settings(const std::function<std::string(std::string_view name)>& variable,
                               std::vector<std::string>& ignored);

using GpuSample = std::vector<system::GpuHealth>;  // empty: no readings
// Why no workload may start on the device, or "".
std::string device_problem(const system::GpuHealth& gpu, double limit_c, double min_margin_c);
// Of all devices, the first with one.
std::string sample_problem(const GpuSample& sample, double limit_c, double min_margin_c);

// One wait for a device, from its first sample on.
class SafetyWait {
 public:
  explicit SafetyWait(const SafetySettings& settings) : settings_(settings) {}
  enum class Verdict { admit, wait, unsafe };
  Verdict judge(const GpuSample& sample, Millis waited);
  bool cooling() const { return cooling_; }
  const std::string& problem() const { return problem_; }  // of the last sample

 private:
  const SafetySettings& settings_;
  bool cooling_ = false;  // a sample was bad
  int good_ = 0;          // in a row
  std::string problem_;
};

enum class SafetyState { off, unavailable, healthy, warm, cooling, blocked };
std::string_view safety_state_name(SafetyState state);

class DeviceSafety : public std::enable_shared_from_this<DeviceSafety> {
 public:
  struct Parts {
    boost::asio::any_io_executor loop, pool;
    const Clock& clock;
    std::shared_ptr<Timers> timers;
    std::function<GpuSample()> sample;  // called on the pool; unset: this machine has no GPU
    SafetySettings settings;
    // Who holds memory of the GPUs, looked at with each sample; unset: nobody is told.
    std::function<std::vector<system::GpuUser>()> users = {};
  };
  explicit DeviceSafety(Parts parts);

  // Returns when a workload may start. Error `device-unsafe` after the longest wait, `cancelled` once
  // `wanted` says no; it is asked at every sample.
  boost::asio::awaitable<EngineResult<>> admit(std::function<bool()> wanted);

  const SafetySettings& settings() const { return parts_.settings; }
  SafetyState state() const;
  const GpuSample& last_sample() const { return last_; }
  const std::vector<system::GpuUser>& last_users() const { return users_; }
  // Nothing is looked at any more; who waits is told `cancelled`.
  void stop();
  // Looks again in the background when the last sample is older than 5 s.
  void refresh();

 private:
  struct Admission {
    explicit Admission(const boost::asio::any_io_executor& loop) : settled(loop) {}
    std::optional<EngineResult<>> result;
    bool cooling = false;
    int waiters = 0;
    Wakeup settled;
  };
  boost::asio::awaitable<void> look();
  boost::asio::awaitable<void> run(std::shared_ptr<Admission> admission);

  Parts parts_;
  GpuSample last_;
  std::vector<system::GpuUser> users_;
  std::optional<MonotonicTime> sampled_at_;
  bool looking_ = false, timed_out_ = false, stopped_ = false;
  Wakeup looked_, woken_;
  std::unique_ptr<Timer> timer_;
  std::shared_ptr<Admission> admission_;  // under way
};

}  // namespace gezel::engine
