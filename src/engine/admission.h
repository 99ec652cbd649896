// engine/admission.h
//
// Who may load a model now: the one queue in front of this machine's memory (spec 20 sections 12 and 13).
//
// Every load asks here first and nothing is loaded without a seat. First is who has waited for a minute, then
// the most urgent lane, then the oldest. The first in the queue gets room in this order: what is free; idle
// engines, stopped for it; a busy engine that has had its time, which then takes no new work, finishes what
// it has and stops. Before any of them stops, or the load gets less than it could have, caches of computed
// prompts are made smaller where that helps. Running answers are never ended for another model, and an engine
// with more urgent work makes no way before the other has waited for a minute. Everything happens on the
// event loop.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "capacity/broker.h"
#include "capacity/launch.h"
#include "engine/engine.h"
#include "engine/timers.h"
#include "engine/wakeup.h"
#include "prompt/request.h"

namespace gezel::engine {

inline constexpr std::size_t kMostWaitingModels = 256;
// An engine keeps its room this long, or as long as its load took, while it has work.
inline constexpr Millis kLeastResidency{5'000};
// A model that waited this long goes before an engine's residency.
inline constexpr Millis kLongWait{60'000};
// The most that a worker takes which measures a model and loads nothing (engine_llama/dry_run.h): 20 to 80
// MiB, as large as what it reads of the file.
inline constexpr Bytes kMeasuringBytes = 80 * kMiB;
// Between two requests of a busy client an engine is idle for a moment; that is not yet being unused.
inline constexpr Millis kIdlePause{500};

// An engine as the queue sees it.
struct Holder {
  std::string key;   // "<family>:<model>:<replica>", its name in the ledger
  std::string name;  // what texts call it
  // Requests that a worker has, or that wait for one and may be sent.
  std::function<bool()> busy;
  // The most urgent lane of its requests; nothing: none are wanted any more. Of one that loads it says who
  // waits.
  std::function<std::optional<prompt::Lane>()> lane;
  std::function<int()> hits_last_minute;
  std::function<std::int64_t()> idle_ms;  // since its last use
  // True: what comes from now on waits until the engine has made way. False: it goes on.
  std::function<void(bool)> give_way;
  std::function<void()> unload;  // begins; the seat is given back when the process is gone
  // Its cache of computed prompts, which it can do without: what is reserved for it, and what it is known to
  // hold of that. Unset, as trim: it has none.
  struct Cache {
    Bytes reserved = 0, held = 0;
  };
  std::function<Cache()> cache;
  std::function<void()> trim;  // begins to give half of it back; Seat::trimmed() when that is done
};

// Is one model loaded after the other (spec 30 section 9.2)? On macOS, where two loads at once have brought
// the GPU's driver down, unless GEZEL_SERIALIZE_GPU_LOADS is "off"; elsewhere only if it is "on".
bool serialize_loads(bool macos, std::string_view setting);

class Admission;

// The right to the memory of one loaded or loading engine. Giving it up gives the memory back.
class Seat {
 public:
  Seat(std::weak_ptr<Admission> admission, std::string key)
      : admission_(std::move(admission)), key_(std::move(key)) {}
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  // The worker is ready and said what it allocated.
  void loaded(Bytes granted);
  // What the process was seen to hold.
  void observed(Bytes bytes);
  // Its cache gave memory back and keeps so much. As much as before: it has nothing to give.
  void trimmed(Bytes cache);
  const std::string& key() const { return key_; }

 private:
  std::weak_ptr<Admission> admission_;
  std::string key_;
};

// Where a load stands in the queue.
struct Waiting {
  std::int64_t ahead = 0;  // loads before it
  std::string reason;      // "waiting for Gemma 3 to finish"
};

class Admission : public std::enable_shared_from_this<Admission> {
 public:
  struct Machine {
    capacity::Budget pools;
    Bytes total_ram = 0;
    Bytes free_ram = 0;  // now
  };
  struct Parts {
    boost::asio::any_io_executor loop;
    const Clock& clock;
    std::shared_ptr<Timers> timers;
    std::function<Machine()> machine;  // asked anew, once for every decision; must not block
    bool one_load_at_a_time = false;   // see serialize_loads()
  };
  explicit Admission(Parts parts);

  using Plan = std::function<capacity::MemoryPlan(const capacity::MachineState&)>;
  struct Request {
    Holder holder;
    Plan plan;                                   // what this model would get in such a state; pure
    std::function<bool()> wanted;                // false: nobody waits for the load any more
    std::function<void(const Waiting&)> notice;  // called when its place or reason changed
    // When the load began to wait, if it waited before with another plan; unset: now.
    std::optional<MonotonicTime> since = {};
    // True: nobody waits for it, so it takes only what is free and comes last. Asked at each look; unset:
    // never.
    std::function<bool()> spare = {};
  };
  struct Admitted {
    capacity::MemoryPlan plan;
    std::unique_ptr<Seat> seat;
  };
  // Returns when the model has its room. Errors: `capacity-denied` when stopping every other engine would not
  // make enough of it, `engine-busy` when too many loads wait, `cancelled` when it is no longer wanted.
  boost::asio::awaitable<EngineResult<Admitted>> enter(Request request);

  // The memory of a worker that measures `key`, counted while the seat lives. One at a time on this machine;
  // it is never denied, because no load can be planned without it. Null: the caller was cancelled.
  boost::asio::awaitable<std::unique_ptr<Seat>> enter_to_measure(std::string key);

  // Memory for measuring the speed of a loaded engine, beside its own, counted while the seat lives. Null:
  // the ledger does not grant it, a load waits, or another engine has some: two that measured at once would
  // measure each other. `give_back` is called when a load needs room: the seat is to go as soon as the memory
  // is free, and the load waits for that as long as an engine keeps its room.
  std::unique_ptr<Seat> borrow(const std::string& key, Bytes bytes, std::function<void()> give_back);

  // Something happened that may let the first in the queue go on: an engine became idle, a request left, a
  // load is no longer wanted.
  void changed() { changed_.notify(); }
  // New loads wait for this reason (memory pressure), and are refused after kLongWait; "": they go on.
  void hold(std::string reason);
  bool holds() const { return !held_.empty(); }

  // What every seat was granted, by key; of one that measures "dry-run:<key>", of one that was lent
  // "borrowed:<key>".
  struct Reservation {
    std::string key;
    capacity::PlanBytes bytes;
    Bytes charged = 0;   // what counts: what the worker said that it allocated, or more if more was observed
    Bytes measured = 0;  // the most that was observed; 0: not yet
    bool lent = false;   // beside the engine's own, for a while
  };
  std::vector<Reservation> reservations() const;
  Machine machine() const { return parts_.machine(); }

  // Stops every engine that has nothing to do.
  void unload_idle();

  // The state in which `key` would be planned now.
  capacity::MachineState state_for(const std::string& key) const;
  // The same for a look ahead at its model: as if none of the model's workers were here.
  capacity::MachineState state_without_model(const std::string& key) const;
  const capacity::Broker& broker() const { return broker_; }
  std::size_t waiting() const { return queue_.size(); }

 private:
  friend class Seat;
  struct Resident {
    Holder holder;
    MonotonicTime admitted_at{}, loaded_at{};
    bool loaded = false, gives_way = false, stopping = false;
    bool trimming = false;  // its cache is being made smaller
    bool untrimmable = false;
    capacity::PlanBytes bytes;
    Bytes untouched = 0;  // granted to a load that has not finished
  };
  struct Entry {
    const Request* request;
    MonotonicTime since;
    std::uint64_t number;  // of coming
    std::string told;      // the last notice
  };
  enum class Turn { granted, wait, denied };

  // Memory that was lent to measure; at most one engine has some.
  struct Loan {
    std::string owner, key;
    std::function<void()> give_back;
    std::optional<MonotonicTime> asked_back_at = {};
  };

  void release(const std::string& key);
  bool waits_for_loan();
  Bytes lent_to(const std::string& key) const;
  Bytes charged(const std::string& key) const;
  bool load_in_flux() const;
  // Where the entry stands: so many go before it.
  std::int64_t ahead_of(const Entry& entry) const;
  bool starves(const Entry& entry) const;
  prompt::Lane lane_of(const Entry& entry) const;
  using Own = std::function<bool(const std::string& key)>;  // what the plan would come in the place of
  capacity::MachineState state_on(const Machine& machine, Bytes committed_other, const Own& own) const;
  capacity::MachineState state_on(const Machine& machine, const std::string& key) const;
  bool is_extra(const std::string& key) const;
  bool is_spare(const Entry& entry) const { return entry.request->spare && entry.request->spare(); }
  bool loads() const;
  std::vector<capacity::Resident> without_work(std::vector<capacity::Resident> residents) const;
  bool make_way(const Entry& entry, Resident& resident);
  static Holder::Cache cache_of(const Resident& resident);
  bool trim_caches(const Request& request, capacity::MachineState state, const capacity::MemoryPlan& plan);
  Turn try_front(Entry& entry, std::optional<capacity::MemoryPlan>& plan, std::string& reason);
  bool may_be_asked(const Resident& resident, const Entry& entry) const;
  void wake_at(MonotonicTime when);
  void restore(Resident& resident);
  void restore_those_who_gave_way();

  Parts parts_;
  capacity::Broker broker_;
  std::map<std::string, Resident> residents_;
  std::list<Entry> queue_;
  std::string measuring_;  // what the worker that measures holds its memory as; "" = none does
  std::optional<Loan> loan_;
  std::uint64_t last_number_ = 0;
  std::uint64_t first_ = 0;  // number of the entry that was the first at the last look
  std::string held_;
  Wakeup changed_;
  std::unique_ptr<Timer> timer_;
  std::optional<MonotonicTime> wakes_at_;
};

}  // namespace gezel::engine
