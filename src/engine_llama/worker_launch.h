// engine_llama/worker_launch.h
//
// One launch of a worker, from a running process to a complete account of its end. Watches that frames keep
// coming, ends the process when told, and waits for everything that explains a death: the exit status, the
// last frames, the last lines.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/exit.h"
#include "engine/output_capture.h"
#include "engine/timers.h"
#include "engine_llama/worker_link.h"
#include "engine_llama/worker_process.h"

namespace gezel::engine_llama {

inline constexpr Millis kHeartbeatLimit{5'000};  // no frame of any kind for this long: the worker is dead
inline constexpr Millis kHeartbeatSecond{
    500};                                // and still none after this: a loop that was busy itself reads first
inline constexpr Millis kExitWait{250};  // from a broken connection to the exit status, and the reverse
inline constexpr Millis kSaveTime{5'000};   // for a worker to write what it computed, before the drain time
inline constexpr Millis kDrainTime{1'000};  // from the drain frame to SIGTERM
inline constexpr Millis kStopTime{3'000};   // from the drain frame to SIGKILL

class WorkerLaunch : public std::enable_shared_from_this<WorkerLaunch> {
 public:
  struct Hooks {
    std::function<void(protocol::Frame)> frame;
    std::function<void(std::string_view)> line;       // of its output, redacted
    std::function<void(engine::ExitSnapshot)> ended;  // once, the last call
  };
  static std::shared_ptr<WorkerLaunch> begin(const boost::asio::any_io_executor& loop, engine::Timers& timers,
                                             const Clock& clock, std::unique_ptr<WorkerProcess> process,
                                             Hooks hooks);

  explicit WorkerLaunch(const Clock& clock)
      : clock_(clock), output_capture_([this](std::string_view l) { on_line(l); }) {}
  ~WorkerLaunch();

  std::int64_t pid() const { return snapshot_.pid; }
  engine::ExitSnapshot& snapshot() { return snapshot_; }  // the owner adds model, diagnostics, reached_ready
  void send(std::string frame);
  // See WorkerProcess::set_nice().
  bool set_nice(int nice) { return !process_ || process_->set_nice(nice); }
  // A planned end: drain frame, SIGTERM after a second, SIGKILL after three; both later by `save`. The first
  // reason stands.
  void stop(engine::StopReason reason, Millis save = Millis(0));
  // The worker is broken: it is killed at once, nothing more is read from it. `panic_kind` says how we know.
  void kill(std::string_view panic_kind, std::string detail);
  // Keeps something for as long as the process lives, also when its end was not waited for.
  void keep_until_exit(std::shared_ptr<void> what);
  // Kills without a word to anybody.
  void abandon();

 private:
  void on_frame(protocol::Frame frame);
  void on_closed(std::optional<Error> error);
  void on_line(std::string_view line);
  void on_exit(ExitStatus status);
  void arm_heartbeat(Millis after, bool second);
  void wait_for_rest();
  void finish_if_complete();
  void finish();

  const Clock& clock_;
  Hooks hooks_;
  std::unique_ptr<WorkerProcess> process_;
  std::shared_ptr<WorkerLink> link_;
  std::shared_ptr<OutputReader> output_;
  engine::OutputCapture output_capture_;
  engine::PanicWatch panics_;
  engine::ExitSnapshot snapshot_;
  MonotonicTime started_{}, last_frame_{};
  std::unique_ptr<engine::Timer> heartbeat_, stop_timer_, rest_timer_;
  bool heard_ = false;  // from the worker
  bool closed_ = false, exited_ = false, silent_ = false, finished_ = false;
};

}  // namespace gezel::engine_llama
