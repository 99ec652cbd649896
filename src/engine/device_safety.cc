#include "engine/device_safety.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <charconv>
#include <span>

#include "base/log.h"
#include "engine/on_pool.h"

namespace gezel::engine {
namespace {

constexpr Millis kFreshSample{5'000};

constexpr std::array<std::string_view, 3> kModes = {"off", "observe", "guard"};
constexpr std::array<std::string_view, 6> kStates = {"off",  "unavailable", "healthy",
                                                     "warm", "cooling",     "blocked"};

// A number within its range, else what holds without it.
double number(const std::string& text, std::string_view name, double low, double high, double usual,
              std::vector<std::string>& ignored) {
  if (text.empty()) return usual;
  double value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && at == text.data() + text.size() && value >= low && value <= high) return value;
  ignored.push_back(fmt::format("GEZEL_DEVICE_SAFETY_{} is '{}'; it must be a number from {} to {}", name,
                                text, low, high));
  return usual;
}

// The place of a word in its list, else `usual`.
std::size_t word(const std::string& text, std::string_view name, std::span<const std::string_view> words,
                 std::size_t usual, std::vector<std::string>& ignored) {
  if (text.empty()) return usual;
  const auto found = std::ranges::find(words, text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  ignored.push_back(
      fmt::format("GEZEL_DEVICE_SAFETY_{} is '{}'; it may be {}", name, text, fmt::join(words, ", ")));
  return usual;
}

}  // namespace

std::string_view safety_mode_name(SafetyMode mode) {
  return kModes[static_cast<std::size_t>(mode)];
}
std::string_view safety_state_name(SafetyState state) {
  return kStates[static_cast<std::size_t>(state)];
}

SafetySettings safety_settings(const std::function<std::string(std::string_view)>& variable,
                               std::vector<std::string>& ignored) {
  SafetySettings out;
  const auto value = [&](std::string_view name, double low, double high, double usual) {
    return number(variable(name), name, low, high, usual, ignored);
  };
  const auto time = [&](std::string_view name, double low, double high, Millis usual) {
    return Millis(static_cast<std::int64_t>(value(name, low, high, static_cast<double>(usual.count()))));
  };
  out.mode = static_cast<SafetyMode>(
      word(variable("MODE"), "MODE", kModes, static_cast<std::size_t>(out.mode), ignored));
  out.max_start_c = value("MAX_START_TEMP_C", 40, 110, out.max_start_c);
  out.resume_c = std::min(value("RESUME_TEMP_C", 35, 105, out.resume_c), out.max_start_c);
  out.min_margin_c = value("MIN_THERMAL_MARGIN_C", 0, 40, out.min_margin_c);
  out.poll = time("POLL_MS", 500, 60'000, out.poll);
  out.max_wait = time("MAX_WAIT_MS", 0, 3'600'000, out.max_wait);
  out.healthy_samples = static_cast<int>(value("HEALTHY_SAMPLES", 1, 20, out.healthy_samples));
  constexpr std::array<std::string_view, 2> kOnFailure = {"allow", "block"};
  out.block_without_readings =
      word(variable("TELEMETRY_FAILURE"), "TELEMETRY_FAILURE", kOnFailure, 0, ignored) == 1;
  return out;
}

std::string device_problem(const system::GpuHealth& gpu, double limit_c, double min_margin_c) {
  const std::string name = gpu.name.empty() ? gpu.id : gpu.name;
  if (gpu.temperature_c && *gpu.temperature_c > limit_c)
    return fmt::format("{} has {:.0f} °C; {:.0f} °C is the most", name, *gpu.temperature_c, limit_c);
  if (gpu.margin_c && *gpu.margin_c < min_margin_c)
    return fmt::format("{} is {:.0f} °C below where it slows itself down; {:.0f} °C is the least", name,
                       *gpu.margin_c, min_margin_c);
  if (gpu.thermal_slowdown) return fmt::format("{} slows itself down because it is hot", name);
  if (gpu.power_brake) return fmt::format("{} is slowed down by its power supply", name);
  return {};
}

std::string sample_problem(const GpuSample& sample, double limit_c, double min_margin_c) {
  for (const auto& gpu : sample)
    if (auto problem = device_problem(gpu, limit_c, min_margin_c); !problem.empty()) return problem;
  return {};
}

SafetyWait::Verdict SafetyWait::judge(const GpuSample& sample, Millis waited) {
  const auto wait = [&] { return waited >= settings_.max_wait ? Verdict::unsafe : Verdict::wait; };
  problem_.clear();
  if (settings_.mode == SafetyMode::off) return Verdict::admit;
  if (sample.empty()) {
    if (settings_.mode == SafetyMode::observe || !settings_.block_without_readings) return Verdict::admit;
    problem_ = "the temperature of the GPU cannot be read";
    good_ = 0;
    return wait();
  }
  if (settings_.mode == SafetyMode::observe) {
    problem_ = sample_problem(sample, settings_.max_start_c, settings_.min_margin_c);
    const bool hot = std::ranges::any_of(
        sample, [](const auto& gpu) { return gpu.temperature_c && *gpu.temperature_c > kHardLimitC; });
    cooling_ = hot;
    return hot ? wait() : Verdict::admit;
  }
  problem_ =
      sample_problem(sample, cooling_ ? settings_.resume_c : settings_.max_start_c, settings_.min_margin_c);
  if (!problem_.empty()) {
    cooling_ = true;
    good_ = 0;
    return wait();
  }
  const int needed = cooling_ ? settings_.healthy_samples : 1;
  return ++good_ >= needed ? Verdict::admit : wait();
}

DeviceSafety::DeviceSafety(Parts parts)
    : parts_(std::move(parts)), looked_(parts_.loop), woken_(parts_.loop), timer_(parts_.timers->make()) {}

SafetyState DeviceSafety::state() const {
  const auto& settings = parts_.settings;
  if (settings.mode == SafetyMode::off) return SafetyState::off;
  if (last_.empty()) return SafetyState::unavailable;
  const bool hot = std::ranges::any_of(
      last_, [](const auto& gpu) { return gpu.temperature_c && *gpu.temperature_c > kHardLimitC; });
  if (hot || timed_out_) return SafetyState::blocked;
  if (admission_ && admission_->cooling) return SafetyState::cooling;
  return sample_problem(last_, settings.max_start_c, settings.min_margin_c).empty() ? SafetyState::healthy
                                                                                    : SafetyState::warm;
}

void DeviceSafety::refresh() {
  const bool fresh = sampled_at_ && parts_.clock.now() - *sampled_at_ < kFreshSample;
  if (!parts_.sample || fresh || looking_ || stopped_ || parts_.settings.mode == SafetyMode::off) return;
  asio::co_spawn(parts_.loop, [self = shared_from_this()] { return self->look(); }, asio::detached);
}

void DeviceSafety::stop() {
  stopped_ = true;
  timer_->cancel();
  woken_.notify();
}

// One look at a time: who comes while it is under way waits for its answer.
asio::awaitable<void> DeviceSafety::look() {
  const auto self = shared_from_this();
  if (looking_) {
    while (looking_)
      if (!co_await looked_.wait()) co_return;
    co_return;
  }
  looking_ = true;
  using Look = std::pair<GpuSample, std::vector<system::GpuUser>>;
  auto seen = co_await on_pool(parts_.pool, [take = parts_.sample, users = parts_.users]() -> Look {
    try {
      auto sample = take();
      return {std::move(sample), users ? users() : std::vector<system::GpuUser>()};
    } catch (const std::exception& thrown) {
      // Who waits for this look must hear of it, and the next one is made all the same.
      log_debug("the GPUs could not be looked at", {{"reason", thrown.what()}});
      return {};
    }
  });
  if (!stopped_) {
    last_ = std::move(seen.first);
    users_ = std::move(seen.second);
    sampled_at_ = parts_.clock.now();
  }
  looking_ = false;
  looked_.notify();
}

asio::awaitable<void> DeviceSafety::run(std::shared_ptr<Admission> admission) {
  const auto self = shared_from_this();
  SafetyWait wait(parts_.settings);
  const auto began = parts_.clock.now();
  std::string told;
  while (admission->waiters > 0) {
    co_await look();
    if (stopped_) break;
    const auto waited = std::chrono::duration_cast<Millis>(parts_.clock.now() - began);
    const auto verdict = wait.judge(last_, waited);
    admission->cooling = wait.cooling();
    if (!wait.problem().empty() && told != wait.problem()) {
      told = wait.problem();
      log_warn("a GPU is not well",
               {{"reason", told}, {"start", verdict == SafetyWait::Verdict::admit ? "now" : "later"}});
    }
    timed_out_ = verdict == SafetyWait::Verdict::unsafe;
    if (verdict == SafetyWait::Verdict::admit) admission->result = EngineResult<>();
    if (timed_out_)
      admission->result = std::unexpected(
          make_error("device-unsafe",
                     fmt::format("Nothing was started on the GPU: after {} s, {}. Let it cool, or change "
                                 "GEZEL_DEVICE_SAFETY_MODE.",
                                 waited / Millis(1'000), wait.problem())));
    if (admission->result) break;
    timer_->arm(parts_.clock.now() + parts_.settings.poll, [weak = weak_from_this()] {
      if (auto alive = weak.lock()) alive->woken_.notify();
    });
    admission->settled.notify();  // those who wait look whether they still want it
    if (!co_await woken_.wait() || stopped_) break;
  }
  if (admission_ == admission) admission_.reset();
  if (!admission->result)
    admission->result = std::unexpected(make_error("cancelled", "Waiting for the GPU was given up."));
  admission->settled.notify();
}

asio::awaitable<EngineResult<>> DeviceSafety::admit(std::function<bool()> wanted) {
  const auto self = shared_from_this();
  if (parts_.settings.mode == SafetyMode::off || !parts_.sample) co_return EngineResult<>();
  const bool first = !admission_;
  if (first) admission_ = std::make_shared<Admission>(parts_.loop);
  const auto mine = admission_;
  struct Waiting {  // also when the waiting coroutine is destroyed
    std::shared_ptr<Admission> admission;
    explicit Waiting(std::shared_ptr<Admission> a) : admission(std::move(a)) { ++admission->waiters; }
    ~Waiting() { --admission->waiters; }
  };
  const Waiting waiting(mine);
  if (first) asio::co_spawn(parts_.loop, [self, mine] { return self->run(mine); }, asio::detached);
  while (!mine->result) {
    if (!wanted()) co_return std::unexpected(make_error("cancelled", "Waiting for the GPU was given up."));
    if (!co_await mine->settled.wait()) break;
  }
  co_return mine->result.value_or(
      std::unexpected(make_error("cancelled", "Waiting for the GPU was given up.")));
}

}  // namespace gezel::engine
