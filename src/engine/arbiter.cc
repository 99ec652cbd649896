// The first of the queue waits until no other slot holds a lease, then evicts and is admitted with a lease of
// its own, so that no other slot can come in between. acquire() gives that lease back at its end.
#include "engine/arbiter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"

namespace gezel::engine {
namespace {

constexpr std::array<std::string_view, 3> kSlots = {"llm", "image", "video"};
constexpr std::array<std::string_view, 3> kPolicies = {"auto", "coexist", "swap"};

std::unexpected<EngineError> given_up() {
  return std::unexpected(make_error("cancelled", "Waiting for the GPU was given up."));
}

}  // namespace

std::string_view gpu_slot_name(GpuSlot slot) {
  return kSlots[static_cast<std::size_t>(slot)];
}

std::optional<GpuPolicy> parse_gpu_policy(std::string_view name) {
  const auto found = std::ranges::find(kPolicies, name);
  if (found == kPolicies.end()) return std::nullopt;
  return static_cast<GpuPolicy>(found - kPolicies.begin());
}

GpuPolicy resolve_gpu_policy(GpuPolicy wish, bool macos_arm64, Bytes total_ram) {
  if (wish != GpuPolicy::automatic) return wish;
  return macos_arm64 && total_ram >= kCoexistRam ? GpuPolicy::coexist : GpuPolicy::swap;
}

Arbiter::Hold::~Hold() {
  if (const auto arbiter = arbiter_.lock()) arbiter->release(number_);
}

Arbiter::Arbiter(Parts parts)
    : parts_(std::move(parts)), changed_(parts_.loop), timer_(parts_.timers->make()) {}

void Arbiter::release(std::uint64_t number) {
  std::erase_if(engines_, [&](const Engine& engine) { return engine.number == number; });
  std::erase_if(leases_, [&](const Lease& lease) { return lease.number == number; });
  if (leases_.empty()) timer_->cancel();
  changed();
}

std::unique_ptr<Arbiter::Hold> Arbiter::add(GpuSlot slot, std::string owner, Evict evict) {
  const auto number = ++last_number_;
  engines_.push_back({number, slot, std::move(owner), std::move(evict)});
  return std::make_unique<Hold>(weak_from_this(), number);
}

void Arbiter::set_policy(GpuPolicy policy) {
  parts_.policy = policy;
  changed();
}

bool Arbiter::held_by_others(GpuSlot slot) const {
  return parts_.policy == GpuPolicy::swap &&
         std::ranges::any_of(leases_, [&](const Lease& lease) { return lease.slot != slot; });
}

void Arbiter::watch_leases() {
  if (leases_.empty()) return timer_->cancel();
  timer_->arm(parts_.clock.now() + kLeaseLook, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    std::erase_if(self->leases_, [&](const Lease& lease) {
      const bool old = self->parts_.clock.now() - lease.since > kLongestLease;
      if (old)
        log_warn("the GPU was held for more than 90 minutes; others may have it now",
                 {{"slot", std::string(gpu_slot_name(lease.slot))}});
      return old;
    });
    self->changed();
    self->watch_leases();
  });
}

boost::asio::awaitable<void> Arbiter::evict_others(GpuSlot slot) {
  // An engine may come or go meanwhile; each is asked once.
  std::uint64_t done = 0;
  while (true) {
    const auto next = std::ranges::find_if(
        engines_, [&](const Engine& engine) { return engine.slot != slot && engine.number > done; });
    if (next == engines_.end()) co_return;
    done = next->number;
    const std::string owner = next->owner;
    const Evict evict = next->evict;  // its engine may leave while it runs
    log_info("unloading an engine: the GPU is needed",
             {{"engine", owner}, {"for", std::string(gpu_slot_name(slot))}});
    try {
      co_await evict();
    } catch (const std::exception& error) {
      log_warn("an engine could not be unloaded", {{"engine", owner}, {"reason", error.what()}});
    }
  }
}

// The number of a lease that the caller gives back.
boost::asio::awaitable<EngineResult<std::uint64_t>> Arbiter::take(GpuSlot slot, Wanted wanted) {
  const auto self = shared_from_this();
  const auto number = ++last_number_;
  queue_.push_back(number);
  struct Leaving {  // also when the waiting coroutine is destroyed
    Arbiter& arbiter;
    std::uint64_t number;
    bool keep = false;  // the lease
    ~Leaving() {
      arbiter.queue_.remove(number);
      if (!keep) arbiter.release(number);
      arbiter.changed();
    }
  } leaving{*this, number};
  while (queue_.front() != number || held_by_others(slot)) {
    if (!wanted() || !co_await changed_.wait()) co_return given_up();
  }
  if (!wanted()) co_return given_up();
  leases_.push_back({number, slot, parts_.clock.now()});
  queue_.remove(number);  // others of this slot need not wait for what follows
  changed();
  watch_leases();
  if (parts_.policy == GpuPolicy::swap) co_await evict_others(slot);
  if (parts_.admit) {
    auto admitted = co_await parts_.admit(wanted);
    if (!admitted) co_return std::unexpected(std::move(admitted).error());
  }
  if (!wanted()) co_return given_up();
  leaving.keep = true;
  co_return number;
}

boost::asio::awaitable<EngineResult<>> Arbiter::acquire(GpuSlot slot, Wanted wanted) {
  const auto self = shared_from_this();
  const auto number = co_await take(slot, std::move(wanted));
  if (!number) co_return std::unexpected(number.error());
  release(*number);
  co_return EngineResult<>();
}

boost::asio::awaitable<EngineResult<std::unique_ptr<Arbiter::Hold>>> Arbiter::acquire_lease(GpuSlot slot,
                                                                                            Wanted wanted) {
  const auto self = shared_from_this();
  const auto number = co_await take(slot, std::move(wanted));
  if (!number) co_return std::unexpected(number.error());
  co_return std::make_unique<Hold>(weak_from_this(), *number);
}

}  // namespace gezel::engine
