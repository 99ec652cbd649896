// engine_llama/embedded_core.h
//
// The state machine of one embedded engine. Everything happens on the event loop; blocking work goes to the
// pool and comes back. Parts that touch the world are injected, so that a test drives it with a fake worker
// and a clock it moves by hand.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capacity/neighbour.h"
#include "capacity/window.h"
#include "engine/admission.h"
#include "engine/gpu_gate.h"
#include "engine/idle_policy.h"
#include "engine/incidents.h"
#include "engine/orphans.h"
#include "engine/quarantine.h"
#include "engine/restart_budget.h"
#include "engine/start_deadline.h"
#include "engine/timers.h"
#include "engine/turn_book.h"
#include "engine/wakeup.h"
#include "engine/watchdog.h"
#include "engine_llama/cache_questions.h"
#include "engine_llama/calibrator.h"
#include "engine_llama/embedded_engine.h"
#include "engine_llama/launch_plan.h"
#include "engine_llama/model_source.h"
#include "engine_llama/request_desk.h"
#include "engine_llama/worker_launch.h"
#include "engine_llama/worker_log.h"

namespace gezel::engine_llama {

namespace asio = boost::asio;

inline constexpr Millis kHelloTime{30'000};  // from the spawn to the worker's first frame
inline constexpr Millis kStatsTime{2'000};   // for an answer to a statistics request
inline constexpr std::size_t kMostHits = 1'000;
inline constexpr Millis kStatsEvery{5'000};  // while busy, for the live figures in status()
inline constexpr Millis kFilesEvery{1'000};  // between two looks at the files of a loaded model
inline constexpr Millis kReachAge{1'000};    // of what is known about longer windows
// After a load that did not meet a need, so long no load is made for one like it.
inline constexpr Millis kMissedPause{60'000};
// Before a window that a load did not make longer is given another try.
inline constexpr Millis kGrowPause{1'800'000};
inline constexpr int kStartRounds = 3;  // of one start, while files or needs change

struct EmbeddedParts {
  asio::any_io_executor loop, pool, slow_pool;  // the last for hashing, which no start waits for
  const Clock& clock;
  std::shared_ptr<engine::Timers> timers;
  std::shared_ptr<Launcher> launcher;
  std::shared_ptr<ModelSource> models;
  Planner planner;
  // Null: every load is granted what its plan says (tests).
  std::shared_ptr<engine::Admission> admission;
  engine::WatchdogLimits watchdog = {};
  // In front of everything that computes on a GPU. Null: nothing is (tests).
  std::shared_ptr<engine::GpuGate> gpu = nullptr;
};

std::unique_ptr<engine::Engine> make_embedded_engine(EmbeddedParts parts, std::string model_id,
                                                     EmbeddedOptions options);

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(EmbeddedParts parts, std::string model_id, EmbeddedOptions options);

  engine::Status status() const;
  bool serves() const { return !desk_.empty(); }  // somebody is being answered, or waits for it
  bool busy() const { return serves() || cache_questions_.computing() > 0; }
  asio::awaitable<engine::EngineResult<>> ensure_ready();
  engine::EngineResult<std::shared_ptr<Run>> submit(prompt::GenerateRequest request);
  RequestDesk& desk() { return desk_; }
  asio::awaitable<engine::StopOutcome> stop(engine::StopReason reason);
  asio::awaitable<std::optional<std::string>> worker_stats();
  std::optional<engine::CacheUse> cache_use() const;
  asio::awaitable<engine::EngineResult<engine::CacheReply>> cache(engine::CacheQuery query);
  asio::awaitable<engine::EngineResult<capacity::MemoryPlan>> plan(engine::MemoryWish wish);
  void set_manners(engine::Manners manners);
  // What calibration knows, as JSON text, and measuring anew; see engine::Engine.
  std::string calibration() const;
  bool calibrate() { return calibrator_.tune(); }
  // What it was loaded from is another file now.
  void refresh();
  // The owner is gone: everything ends at once, and later use answers `engine-evicted`.
  void dispose();

 private:
  // One start, shared by all who wait for it.
  struct Start {
    explicit Start(const asio::any_io_executor& loop) : settled(loop) {}
    int waiters = 0;  // callers of ensure_ready
    bool aborted = false;
    int rounds = 0;                          // begun anew, because files or needs changed while it waited
    std::optional<MonotonicTime> queued_at;  // for memory, the first time
    std::optional<engine::EngineResult<>>
        result;  // set once: by the sequence itself, a frame, an exit or a deadline
    engine::Wakeup settled;
  };
  enum class Stage { hello, loading, ready };  // of the launch

  // embedded_start.cc
  std::shared_ptr<Start> begin_start();
  asio::awaitable<void> run_start(std::shared_ptr<Start> start);
  asio::awaitable<engine::EngineResult<ModelFacts>> find_model(std::shared_ptr<Start> start);
  protocol::Load make_load(const ModelFacts& facts, const LaunchPlan& plan) const;
  asio::awaitable<std::optional<capacity::DryRun>> dry_run(const ModelFacts& facts,
                                                           const protocol::Load& load);
  // For a load of this worker, or for a look ahead at the model.
  enum class For { load, preview };
  capacity::MachineState machine_for(For what) const;
  asio::awaitable<capacity::LaunchInput> plan_input(const ModelFacts& facts, LaunchPlan plan, For what);
  capacity::LaunchInput named_input(const ModelFacts& facts, const LaunchPlan& plan) const;
  void note_waiting(const engine::Waiting& waiting);
  void note_waiting_over();
  std::string ledger_key() const;
  std::string worker_name()
      const;  // for files and logs: the model's, with a number from the second worker on
  // False: something changed while it waited, and the start begins anew.
  asio::awaitable<engine::EngineResult<bool>> admit(std::shared_ptr<Start> start, const ModelFacts& facts,
                                                    LaunchPlan& plan);
  engine::Holder holder();
  engine::EngineResult<> launch(const ModelFacts& facts, const LaunchPlan& plan);
  void settle(engine::EngineResult<> result);
  void abort_start_if_unwanted();
  void arm_start_deadline();
  void prune_prompt_cache();
  void verify_in_background(const ModelFacts& facts);
  asio::awaitable<void> verify(ModelFacts facts);
  void refuse_model(const FileStamp& stamp, const fs::path& weights, engine::EngineError error);

  // embedded_window.cc
  enum class Reload { none, need, window, files };  // why the model is to be loaded again
  void want_reload(Reload why, bool hold);
  void settle_reload();
  bool may_reload() const;
  void drop_reload();
  void look_for_reload();
  asio::awaitable<void> check_files(std::uint64_t generation);
  bool window_outgrown() const;
  capacity::WindowReach window_reach() const;
  std::int64_t longest_window();
  std::optional<engine::EngineError> needs_longer(const Run& run);
  engine::EngineError window_error(const Run& run, const capacity::WindowReach& reach) const;
  std::vector<capacity::Tokens> windows_to_try() const;
  void refuse_beyond_limit(const capacity::LaunchInput& input);

  // embedded_calibration.cc
  Calibrator::Hooks calibrator_hooks();
  void begin_calibration();
  std::optional<Millis> quiet_for() const;
  std::optional<std::unique_ptr<engine::Seat>> borrow(Bytes bytes);
  bool use_setting(const costmodel::Setting& setting);

  // embedded_frames.cc
  void on_frame(protocol::Frame frame);
  Result<> handle(const protocol::Frame& frame);
  Result<> on_hello(const protocol::Frame& frame);
  Result<> on_ready(const protocol::Frame& frame);
  Result<> on_worker_failed(const protocol::Frame& frame);
  void note_draft();
  // The worker has work: requests, or prompts that are computed for later.
  bool works() const { return desk_.admitted() > 0 || cache_questions_.computing() > 0; }
  void note_computed();                                                      // embedded_cache.cc
  void note_answer(const std::string& session, const engine::Usage& usage);  // embedded_cache.cc
  void ask_for_stats();
  void observe_memory();

  // embedded_core.cc
  void on_ended(const engine::ExitSnapshot& snapshot);
  engine::EngineError crash_error(const engine::ExitSnapshot& snapshot, std::int64_t characters) const;
  engine::EngineError start_crash_error(const engine::ExitSnapshot& snapshot) const;
  engine::EngineError unloaded_error(const Run& run) const;
  void stop_launch(engine::StopReason reason);
  void mark_used();
  int hits_last_minute() const;
  void apply_manners();
  void order_cache(std::string op);
  // For other models: embedded_cache.cc.
  engine::Holder::Cache cache_memory() const;
  void trim_cache();
  boost::asio::awaitable<void> ask_to_trim();
  bool uses_gpu() const { return parts_.gpu && options_.backend != engine::Backend::cpu; }
  asio::awaitable<engine::EngineResult<>> pass_gpu_gate(std::shared_ptr<Start> start);
  void on_idle_deadline();
  void set_state(engine::State state);

  EmbeddedParts parts_;
  const std::string model_id_;
  const EmbeddedOptions options_;
  RequestDesk desk_;
  WorkerLog log_;
  engine::IncidentLog incidents_;
  engine::Quarantine quarantine_;
  engine::RestartBudget budget_;
  engine::IdlePolicy idle_;
  std::unique_ptr<engine::Timer> idle_timer_, start_timer_, stats_timer_;
  Calibrator calibrator_;

  engine::State state_ = engine::State::stopped;
  bool disposed_ = false;
  engine::Wakeup changed_;  // of state_
  std::uint64_t generation_ = 0;
  std::shared_ptr<Start> start_;
  std::unique_ptr<engine::Seat> seat_;  // from a start that was admitted to the end of its process
  Bytes process_bytes_ = 0;             // of the plan: what the worker needs beside what it reports
  engine::Manners manners_;
  bool told_pressure_ = false;
  bool gives_way_ = false;               // to another model: nothing new is sent to the worker
  std::shared_ptr<WorkerLaunch> dying_;  // its process is not gone yet and keeps the seat
  bool measuring_ = false;               // a dry run is under way
  engine::Wakeup measured_;
  std::string unmeasurable_;        // the file whose dry run failed
  std::string waiting_;             // what the start waits for
  std::deque<MonotonicTime> hits_;  // requests of the last minute, at most kMostHits

  // The window of the model, and what would change it; embedded_window.cc.
  Reload reload_ = Reload::none;
  bool reload_holds_ = false;  // nothing new is sent to the worker until it is loaded again
  std::unique_ptr<engine::Timer> reload_timer_;
  bool files_changed_ = false;  // since the last start looked at them
  MonotonicTime files_checked_at_{};
  std::optional<capacity::LaunchInput> launch_input_;  // what the loaded model was planned from
  bool below_floor_ = false;                           // of that plan
  MonotonicTime ready_at_{};
  capacity::Tokens grow_to_ = 0;      // what the next load should have
  capacity::Tokens keep_window_ = 0;  // what the one before a reload had
  capacity::Tokens considered_ = 0;   // the longest need that the load tried to meet
  capacity::Tokens grown_from_ = 0;   // what was loaded again because memory had kept it short
  MonotonicTime grown_at_{};
  struct Missed {  // a load that was to meet a need and did not
    capacity::Tokens needed = 0;
    MonotonicTime at{};
  };
  std::optional<Missed> missed_;
  struct Known {
    capacity::WindowReach reach;
    MonotonicTime at{};
  };
  std::optional<Known> known_reach_;

  // The live launch and what belongs to it.
  std::shared_ptr<WorkerLaunch> launch_;
  std::unique_ptr<engine::PidFile> pid_file_;
  std::unique_ptr<engine::Arbiter::Hold> gpu_hold_;  // the right to be asked to leave the GPU
  Stage stage_ = Stage::hello;
  int threads_ = 0, nice_ = 0;  // that it has now
  std::optional<engine::StartDeadline> deadline_;
  MonotonicTime launched_at_{};
  protocol::Load load_;
  engine::LaunchIdentity identity_;
  protocol::Ready granted_;
  std::int64_t vocabulary_ = 0;               // of the plan
  CalibrationFacts calibration_;              // of the plan
  std::optional<capacity::Note> draft_note_;  // why a draft model that was named is not used
  bool load_again_ = false;                   // with another setting, as soon as the process is gone
  std::string profile_;                       // of the plan, as JSON
  std::optional<protocol::Stats> stats_;
  std::string stats_text_;
  MonotonicTime stats_asked_{};
  std::uint64_t stats_serial_ = 0;
  engine::Wakeup stats_arrived_;
  CacheQuestions cache_questions_;
  engine::TurnBook turns_;

  // A verdict about the file itself, kept until the file changes.
  struct Refusal {
    fs::path weights;
    FileStamp stamp;
    engine::EngineError error;
  };
  std::optional<Refusal> refusal_;
  std::optional<ModelFacts> loaded_;
  bool verifying_ = false;
  std::shared_ptr<std::atomic<bool>> keep_verifying_ = std::make_shared<std::atomic<bool>>(true);
  bool template_noted_ = false;
};

}  // namespace gezel::engine_llama
