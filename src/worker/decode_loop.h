// worker/decode_loop.h
//
// The decode thread: commands between steps, steps while there is something to compute, sleep otherwise.
#pragma once
#include "calibration/bench.h"
#include "llama/llama.h"
#include "scheduler/scheduler.h"
#include "system/process_usage.h"
#include "worker/cache_desk.h"
#include "worker/commands.h"
#include "worker/frame_sink.h"
#include "worker/outbox.h"

namespace gezel::worker {

class DecodeLoop {
 public:
  // `draft`: of the draft model, null without one. `usage` was made before the sandbox closed /proc.
  DecodeLoop(scheduler::Scheduler& scheduler, llama::Context& context, llama::Context* draft,
             CacheDesk& cache, FrameSink& sink, Outbox& outbox, Commands& commands,
             const system::ProcessUsage& usage, calibration::Bench& bench)
      : scheduler_(scheduler),
        context_(context),
        draft_(draft),
        cache_(cache),
        sink_(sink),
        outbox_(outbox),
        commands_(commands),
        usage_(usage),
        bench_(bench) {}

  // Returns when a stop was asked for or the backend failed.
  void run();

 private:
  void apply(Prepared& prepared);
  void apply(const Cancel& cancel) { scheduler_.cancel(cancel.id); }
  void apply(const Pause& pause) { scheduler_.pause(pause.id, pause.paused); }
  void apply(const SetThreads& order) {
    context_.set_threads(order.threads);
    if (draft_ != nullptr) draft_->set_threads(order.threads);
  }
  void apply(const Stop&) { stopping_ = true; }
  void apply(const StatsQuery&);
  void apply(const protocol::Measure& measure);
  void apply(CacheCommand& command) { cache_.answer(std::move(command)); }
  void apply(const DiskDone&) { scheduler_.poke(); }

  scheduler::Scheduler& scheduler_;
  llama::Context& context_;
  llama::Context* draft_;
  CacheDesk& cache_;
  FrameSink& sink_;
  Outbox& outbox_;
  Commands& commands_;
  const system::ProcessUsage& usage_;
  calibration::Bench& bench_;
  bool stopping_ = false;
  std::uint64_t replayed_ = 0, replay_missed_ = 0;
};

}  // namespace gezel::worker
