// engine/request_queue.h
//
// The requests of one engine: those that wait, by lane, and those that were let go and have not ended (spec
// 30 section 8). Who is next: whoever waited too long; then by lane; then those whose conversation or caller
// was just served, whose caches are warm; then by age. Pure: the caller says what time it is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "engine/queue_widths.h"
#include "prompt/request.h"

namespace gezel::engine {

class RequestQueue {
 public:
  static constexpr std::size_t kMaxWaiting = 256;
  static constexpr Millis kStarving{60'000};    // older than this goes first; batch work never does
  static constexpr Millis kRemembered{30'000};  // an ended request keeps its affinity for so long
  static constexpr std::size_t kMostRemembered = 64;
  static constexpr Millis kAmbientQuiet{180'000};
  static constexpr Millis kRecheckSlack{25};

  struct Entry {
    std::uint64_t id = 0;
    prompt::Lane lane = prompt::Lane::interactive;
    bool ambient = false;         // background work that nobody waits for
    MonotonicTime since{};        // when it came
    std::string session, caller;  // for affinity; "" = none
  };
  struct Settings {
    // Ambient work goes beside other work only where a place is left over, else after so long without any.
    // 0: at once.
    Millis ambient_quiet = kAmbientQuiet;
    bool affinity = true;
  };

  // `started`: of the daemon, which counts as the last work that was not ambient.
  explicit RequestQueue(MonotonicTime started = {}) : RequestQueue(started, Settings()) {}
  RequestQueue(MonotonicTime started, Settings settings) : settings_(settings), last_other_(started) {}

  void set_widths(QueueWidths widths) { widths_ = widths; }
  const QueueWidths& widths() const { return widths_; }

  // False: the queue is full. One that is tried again comes with its old `since` and is not put behind those
  // that came after it.
  bool push(Entry entry, MonotonicTime now);
  // Lets the next one go, if any may.
  std::optional<std::uint64_t> pop(MonotonicTime now);
  // One that was let go has ended, or is about to be pushed again.
  void finish(std::uint64_t id, MonotonicTime now);
  // Takes a waiting one out; false: it does not wait here.
  bool remove(std::uint64_t id);
  // Moves a waiting one `places` towards the front (negative: towards the end) within its lane, as far as
  // there are any; false: it does not wait here. Who waited too long still goes first.
  bool move(std::uint64_t id, int places);
  void clear();

  // Could `extra` more of this lane go at once, if they came now?
  bool has_capacity(prompt::Lane lane, int extra = 1) const;
  // When to ask pop() again although nothing happens: ambient work may be able to go then.
  std::optional<MonotonicTime> recheck(MonotonicTime now) const;

  // Those that wait, the next to go first.
  std::vector<std::uint64_t> order(MonotonicTime now) const;
  std::size_t size() const { return waiting_.size(); }
  std::size_t running() const { return running_.size(); }
  bool empty() const { return waiting_.empty(); }

 private:
  struct Served {
    std::string session, caller;
    MonotonicTime at{};
  };

  // In front of others, lane, when it came if it starves, how cold it is, index in waiting_.
  using Rank = std::tuple<bool, prompt::Lane, MonotonicTime, int, std::size_t>;

  std::vector<Rank> ranks(MonotonicTime now) const;
  std::vector<int> affinities(MonotonicTime now) const;
  bool starves(const Entry& entry, MonotonicTime now) const;
  bool may_go(const Entry& entry, MonotonicTime now) const;
  bool ambient_gate_open(MonotonicTime now) const;
  int running_in(prompt::Lane lane) const;
  int cap(prompt::Lane lane) const;
  bool other_work() const;

  Settings settings_;
  QueueWidths widths_;
  std::vector<Entry> waiting_;              // in the order of coming, as it was moved since
  std::map<std::uint64_t, Entry> running_;  // let go, not ended
  std::deque<Served> served_;               // the last to end is last
  MonotonicTime last_other_;                // work that is not ambient came, went or ended
};

}  // namespace gezel::engine
