// worker/reader.h
//
// The reader thread: frames become work for the intake and commands for the decode thread. When the daemon
// goes away or breaks the protocol, nobody is left to work for and the process ends.
#pragma once
#include <mutex>

#include "base/result.h"
#include "scheduler/scheduler.h"
#include "worker/commands.h"
#include "worker/inbox.h"
#include "worker/intake.h"
#include "worker/outbox.h"

namespace gezel::worker {

class Reader {
 public:
  Reader(Inbox& inbox, Outbox& outbox, Commands& commands)
      : inbox_(inbox), outbox_(outbox), commands_(commands) {}

  // Once the model is loaded; a request before that is a protocol error of the daemon.
  void attach(Intake* intake, scheduler::Scheduler* scheduler);
  [[noreturn]] void run();

 private:
  Result<> handle(const protocol::Frame& frame);

  Inbox& inbox_;
  Outbox& outbox_;
  Commands& commands_;
  std::mutex mutex_;
  Intake* intake_ = nullptr;
  scheduler::Scheduler* scheduler_ = nullptr;
};

}  // namespace gezel::worker
