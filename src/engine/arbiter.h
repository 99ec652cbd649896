// engine/arbiter.h
//
// Who has the GPU: text, images or video (spec 30 section 9.1). Where they do not fit together, starting one
// evicts the engines of the others. Everything happens on the event loop; waiters are served in the order in
// which they came.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/timers.h"
#include "engine/wakeup.h"

namespace gezel::engine {

enum class GpuSlot { llm, image, video };
std::string_view gpu_slot_name(GpuSlot slot);

// gpuMemoryPolicy: all may stay loaded together; one at a time; the first on machines with much memory that
// the GPU shares.
enum class GpuPolicy { automatic, coexist, swap };
std::optional<GpuPolicy> parse_gpu_policy(std::string_view name);  // "auto", "coexist", "swap"
inline constexpr Bytes kCoexistRam = 24 * kGiB;
GpuPolicy resolve_gpu_policy(GpuPolicy wish, bool macos_arm64, Bytes total_ram);

inline constexpr Millis kLongestLease{90 * 60'000};
inline constexpr Millis kLeaseLook{60'000};

class Arbiter : public std::enable_shared_from_this<Arbiter> {
 public:
  // Stops an engine; returns once its process is gone.
  using Evict = std::function<boost::asio::awaitable<void>()>;
  using Wanted = std::function<bool()>;  // false: nobody waits for it any more; asked when something changed

  // An engine that can be evicted, or a slot that is held; until it is destroyed.
  class Hold {
   public:
    Hold(std::weak_ptr<Arbiter> arbiter, std::uint64_t number)
        : arbiter_(std::move(arbiter)), number_(number) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

   private:
    std::weak_ptr<Arbiter> arbiter_;
    std::uint64_t number_;
  };

  struct Parts {
    boost::asio::any_io_executor loop;
    const Clock& clock;
    std::shared_ptr<Timers> timers;
    GpuPolicy policy;  // resolved
    // Asked after the others are gone and before anything is planned: may the GPU be used (device_safety.h)?
    std::function<boost::asio::awaitable<EngineResult<>>(Wanted)> admit;
  };
  explicit Arbiter(Parts parts);

  // The engines of `owner` (an engine's key) in `slot`, while the hold lives.
  std::unique_ptr<Hold> add(GpuSlot slot, std::string owner, Evict evict);

  // Returns when `slot` may start something: no other slot holds a lease, and their engines are gone. What
  // was known of free memory before is stale then. Errors: `cancelled`, and those of `admit`.
  boost::asio::awaitable<EngineResult<>> acquire(GpuSlot slot, Wanted wanted);
  // The same, and no other slot gets the GPU while the hold lives. A lease of 90 min is broken.
  boost::asio::awaitable<EngineResult<std::unique_ptr<Hold>>> acquire_lease(GpuSlot slot, Wanted wanted);

  // Something happened that those who wait must know of: one of them is no longer wanted.
  void changed() { changed_.notify(); }
  void set_policy(GpuPolicy policy);
  GpuPolicy policy() const { return parts_.policy; }
  std::size_t waiting() const { return queue_.size(); }

 private:
  struct Engine {
    std::uint64_t number;
    GpuSlot slot;
    std::string owner;
    Evict evict;
  };
  struct Lease {
    std::uint64_t number;
    GpuSlot slot;
    MonotonicTime since;
  };
  bool held_by_others(GpuSlot slot) const;
  void release(std::uint64_t number);
  void watch_leases();
  boost::asio::awaitable<void> evict_others(GpuSlot slot);
  boost::asio::awaitable<EngineResult<std::uint64_t>> take(GpuSlot slot, Wanted wanted);

  Parts parts_;
  std::list<Engine> engines_;
  std::list<Lease> leases_;
  std::list<std::uint64_t> queue_;  // who waits, first to last
  std::uint64_t last_number_ = 0;
  Wakeup changed_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace gezel::engine
