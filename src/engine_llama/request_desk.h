// engine_llama/request_desk.h
//
// The requests of one engine: a queue before the physical gate, the runs behind it, and what the worker's
// frames mean for them (spec 30 sections 8 and 12.8). Knows nothing of processes: its owner opens the gate
// when a worker is ready, feeds its frames in and says when it is gone. How requests wait is in
// request_waiting.cc, what frames mean in request_frames.cc.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/request_queue.h"
#include "engine/timers.h"
#include "engine_llama/run.h"
#include "protocol/messages.h"

namespace gezel::engine_llama {

inline constexpr Bytes kPauseBytes = 256 * kKiB;    // text nobody took: the worker pauses the run
inline constexpr Bytes kResumeBytes = 64 * kKiB;    // below this it goes on
inline constexpr Bytes kOverflowBytes = 16 * kMiB;  // a worker that does not pause is broken
inline constexpr Millis kNoticeAfter{200};          // queued requests learn their place from then on
inline constexpr Millis kUsedEvery{60'000};         // a streaming run counts as use this often
inline constexpr Millis kDeadlineTick{2'000};  // how often waiting requests are asked whether it is enough
// How long a request that says nothing waits for memory or a place: clients give up on a person's question
// after as long, and what nobody looks at may wait as long as a turn may take.
inline constexpr Millis kInteractiveWait{600'000}, kBackgroundWait{28'800'000};

class RequestDesk {
 public:
  struct Hooks {
    std::function<void(std::string frame)> send;
    std::function<void()> used;  // a request began, ended or still streams
    std::function<void()> left;  // a request is no longer waiting or running
    // The worker does not do what it was told, or cannot; it must end.
    std::function<void(std::string_view panic_kind, std::string reason)> broken;
    // The window that the model could be loaded with now, if that is longer than the loaded one; else 0.
    std::function<std::int64_t()> longest_window = [] { return 0; };
    // A request needs a longer window than is loaded. Nothing: it waits, and the desk is on hold until the
    // model was loaded again. Else why it is refused.
    std::function<std::optional<engine::EngineError>(const Run&)> needs_longer = [](const Run& run) {
      return run.too_long.value_or(engine::make_error("context-overflow", "The window is too short."));
    };
    // The model is being read at this moment: no request waits for anything else, and the load has a
    // deadline of its own. Unset: never.
    std::function<bool()> loading = {};
    // An answer is complete. Unset: nobody wants to know.
    std::function<void(const std::string& session, const engine::Usage& usage)> answered = {};
  };
  RequestDesk(boost::asio::any_io_executor loop, const Clock& clock, engine::Timers& timers,
              engine::WatchdogLimits limits, Hooks hooks, engine::RequestQueue::Settings queue = {});

  // Queues a request. Errors: `engine-busy` when 256 wait already, `invalid-request` when it names tokens
  // that the loaded model does not have. Before a model is loaded the latter is found when the request's turn
  // comes.
  engine::EngineResult<std::shared_ptr<Run>> submit(prompt::GenerateRequest request);
  void cancel(Run& run);
  // Events of the run were taken: a paused run may go on.
  void taken(Run& run);

  // The worker is ready and has that many slots of so many tokens (0: unknown), and so many tokens in its
  // vocabulary (0: unknown), and its model writes like that; it is gone.
  void open(int slots, std::int64_t window = 0, std::int64_t vocabulary = 0, prompt::WritingStyle style = {});
  void close();
  // While true nothing more is sent to the worker; what it has goes on.
  void hold(bool on);
  // `started`, `step`, `progress`, `done` and `failed` of a run. An error: the worker broke the protocol.
  Result<> on_frame(const protocol::Frame& frame);
  void note_decode_steps(std::uint64_t steps) { decode_steps_ = std::max(decode_steps_, steps); }

  // Tells requests that wait how far loading is, in per mille.
  void note_loading(std::int64_t per_mille);
  // Tells them, and those that come later, what the load itself waits for; "": it waits no longer.
  void note_waiting(std::int64_t ahead, const std::string& reason);
  // What waiting requests need of a window, the most first, each figure once.
  std::vector<std::int64_t> needed_windows() const;
  // Ends the waiting requests that need a longer window than `limit`.
  void refuse_longer(std::int64_t limit, const std::function<engine::EngineError(const Run&)>& because);
  // Ends every request. `because` makes the error; it gets what the client has seen already.
  using Because = std::function<engine::EngineError(const Run&)>;
  void fail_all(const Because& because);
  // The worker died. Requests it had fail, except that those without output are queued again, once each, when
  // `retry`. With `their_doing` it may have died of what it computed: a request that was alone in a slot, or
  // was in one both times, would end the next worker as well, so it fails and its error says not to repeat
  // it.
  void fail_admitted(const Because& because, bool retry, bool their_doing);

  bool empty() const { return runs_.empty(); }
  std::size_t waiting() const { return queue_.size(); }
  std::size_t admitted() const { return runs_.size() - queue_.size(); }
  int in_slots() const;
  // The most urgent lane of what is wanted of the engine, also of what is held back; nothing: it has no work.
  std::optional<prompt::Lane> lane() const;
  engine::LaneLoads lanes() const;
  // Waiting here, in the worker's intake, or there for a slot.
  std::size_t outside_slots() const { return runs_.size() - static_cast<std::size_t>(in_slots()); }

 private:
  std::shared_ptr<Run> find(std::uint64_t id) const;
  engine::EngineResult<> check_tokens(const prompt::GenerateRequest& request) const;
  void admit();
  // False: the request waits again, for a longer window.
  bool send_generate(Run& run);
  bool wait_again(Run& run);
  std::optional<engine::EngineError> wait_for_window(Run& run, std::int64_t needed, engine::EngineError said);
  void leave(const std::shared_ptr<Run>& run);
  engine::RequestQueue::Entry entry_of(const Run& run) const;
  void abandon(Run& run, engine::Event last, bool drop_waiting);
  void tell_places();
  void tell(Run& run, std::int64_t ahead, const std::string& reason);
  void arm_notice();
  void arm_deadlines();
  void check_deadlines();
  engine::EngineError waited_too_long(const Run& run, std::size_t ahead) const;
  void leave_intake(Run& run);
  std::optional<MonotonicTime> intake_deadline() const;
  void arm_watch();
  void watch();
  void expire(Run& run, engine::TurnWatchdog::Verdict verdict);

  Result<> on_started(std::string_view body);
  Result<> on_step(std::string_view body);
  Result<> on_step_run(protocol::StepRun& step);
  Result<> on_progress(std::string_view body);
  Result<> on_done(std::string_view body);
  Result<> on_failed(std::string_view body);

  boost::asio::any_io_executor loop_;
  const Clock& clock_;
  engine::WatchdogLimits limits_;
  Hooks hooks_;
  engine::RequestQueue queue_;
  std::map<std::uint64_t, std::shared_ptr<Run>> runs_;  // waiting and behind the gate
  std::uint64_t last_id_ = 0;
  bool open_ = false;  // a worker is ready
  bool held_ = false;
  std::int64_t window_ = 0;  // tokens of a slot; 0: unknown
  std::string load_waits_;   // what the load waits for; "": it does not
  std::int64_t load_ahead_ = 0;
  std::int64_t vocabulary_ = 0;  // tokens of the loaded model; 0: unknown
  prompt::WritingStyle style_;   // of the loaded model
  std::uint64_t decode_steps_ = 0;
  MonotonicTime used_at_{}, intake_moved_{};
  std::unique_ptr<engine::Timer> notice_timer_, watch_timer_, deadline_timer_, ambient_timer_;
  bool notice_armed_ = false, deadlines_armed_ = false;
};

// An engine error as the worker told it.
engine::EngineError error_from(const protocol::Failed& failed);

}  // namespace gezel::engine_llama
