// worker/decode_loop.h
//
// The decode thread: commands between steps, steps while there is something to compute, sleep otherwise.
#pragma once
#include "llama/llama.h"
#include "scheduler/scheduler.h"
#include "worker/commands.h"
#include "worker/outbox.h"

namespace gezel::worker {

class DecodeLoop {
 public:
  // `statm_fd`: /proc/self/statm, opened before the sandbox closed the file system.
  DecodeLoop(scheduler::Scheduler& scheduler, const llama::Context& context, Outbox& outbox,
             Commands& commands, int statm_fd)
      : scheduler_(scheduler), context_(context), outbox_(outbox), commands_(commands), statm_fd_(statm_fd) {}

  // Returns when a stop was asked for or the backend failed.
  void run();

 private:
  void apply(Prepared& prepared);
  void apply(const Cancel& cancel) { scheduler_.cancel(cancel.id); }
  void apply(const Pause& pause) { scheduler_.pause(pause.id, pause.paused); }
  void apply(const Stop&) { stopping_ = true; }
  void apply(const StatsQuery&);

  scheduler::Scheduler& scheduler_;
  const llama::Context& context_;
  Outbox& outbox_;
  Commands& commands_;
  int statm_fd_;
  bool stopping_ = false;
};

}  // namespace gezel::worker
