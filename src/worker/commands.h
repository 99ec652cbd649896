// worker/commands.h
//
// What the decode thread is told, by the reader and by the intake, between two steps.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "protocol/messages.h"
#include "scheduler/scheduler.h"
#include "worker/intake.h"

namespace gezel::worker {

struct Cancel {
  scheduler::RunId id;
};
struct Pause {
  scheduler::RunId id;
  bool paused;
};
struct SetThreads {
  int threads;
};
struct StatsQuery {};
// Of the prefix cache; `prompt`: of the query's request.
struct CacheCommand {
  protocol::CacheQuery query;
  std::optional<Prepared> prompt;
};
struct DiskDone {};  // the disk tier has something to say
struct Stop {};
using Command = std::variant<Prepared, Cancel, Pause, SetThreads, StatsQuery, CacheCommand, DiskDone, Stop>;

class Commands {
 public:
  void push(Command command) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(command));
    }
    wake_.notify_one();
  }
  // Everything that waits. With `wait`: blocks until there is something, or until then.
  std::deque<Command> take(bool wait, std::optional<MonotonicTime> until = std::nullopt) {
    std::unique_lock lock(mutex_);
    const auto something = [this] { return !queue_.empty(); };
    if (wait && until) {
      wake_.wait_until(lock, *until, something);
    } else if (wait) {
      wake_.wait(lock, something);
    }
    return std::exchange(queue_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Command> queue_;
};

}  // namespace gezel::worker
