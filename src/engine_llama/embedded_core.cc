// States, stopping, idleness and what the end of a worker means. How a start goes is in embedded_start.cc,
// what frames mean in embedded_frames.cc.
#include "engine_llama/embedded_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "base/log.h"

namespace gezel::engine_llama {

using engine::EngineError;
using engine::EngineResult;
using engine::make_error;
using engine::State;
using engine::StopReason;

namespace {

// What a process that was killed keeps until it is gone.
struct Kept {
  // Told to those who evict it from the GPU.
  struct Gone {
    explicit Gone(const asio::any_io_executor& loop) : told(loop) {}
    bool yes = false;
    engine::Wakeup told;
  };
  explicit Kept(const asio::any_io_executor& loop) : gone(std::make_shared<Gone>(loop)) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    gone->yes = true;
    gone->told.notify();
  }

  std::unique_ptr<engine::Seat> seat;
  std::unique_ptr<engine::Arbiter::Hold> gpu;
  std::shared_ptr<Gone> gone;
};

}  // namespace

Core::Core(EmbeddedParts parts, std::string model_id, EmbeddedOptions options)
    : parts_(std::move(parts)),
      model_id_(std::move(model_id)),
      options_(std::move(options)),
      desk_(parts_.loop, parts_.clock, *parts_.timers, parts_.watchdog,
            {.send =
                 [this](std::string frame) {
                   if (launch_) launch_->send(std::move(frame));
                 },
             .used = [this] { mark_used(); },
             .left =
                 [this] {
                   abort_start_if_unwanted();
                   settle_reload();
                   if (parts_.admission) parts_.admission->changed();
                 },
             .broken =
                 [this](std::string_view panic_kind, std::string reason) {
                   if (launch_) launch_->kill(panic_kind, std::move(reason));
                 },
             .longest_window = [this] { return longest_window(); },
             .needs_longer = [this](const Run& run) { return needs_longer(run); },
             .loading = [this] { return state_ == State::starting && waiting_.empty(); },
             .answered = [this](const std::string& session,
                                const engine::Usage& usage) { note_answer(session, usage); }},
            {.ambient_quiet = options_.ambient_quiet}),
      log_(parts_.pool, options_.home, parts_.clock, worker_name()),
      incidents_(options_.home / "logs"),
      quarantine_(engine::quarantine_folder(options_.home), parts_.clock),
      idle_(options_.idle_timeout),
      idle_timer_(parts_.timers->make()),
      start_timer_(parts_.timers->make()),
      stats_timer_(parts_.timers->make()),
      calibrator_(parts_.clock, *parts_.timers, calibrator_hooks()),
      changed_(parts_.loop),
      measured_(parts_.loop),
      reload_timer_(parts_.timers->make()),
      stats_arrived_(parts_.loop),
      cache_questions_(parts_.loop) {}

// The model's name comes without its family, which the key has already.
std::string Core::ledger_key() const {
  const std::string_view family = "llama-cpp";
  std::string_view model = model_id_;
  if (model.starts_with(family) && model.substr(family.size()).starts_with(":"))
    model.remove_prefix(family.size() + 1);
  return capacity::ledger_key(family, model, options_.replica);
}

std::string Core::worker_name() const {
  return options_.replica == 0 ? model_id_ : fmt::format("{}:{}", model_id_, options_.replica);
}

void Core::set_state(State state) {
  state_ = state;
  changed_.notify();
}

engine::Status Core::status() const {
  const auto now = parts_.clock.now();
  const auto wall = parts_.clock.wall_now();
  engine::Status out;
  out.state = state_ == State::stopped && budget_.exhausted(now) ? State::exhausted : state_;
  out.pid = launch_ ? launch_->pid() : 0;
  out.generation = generation_;
  out.waiting = waiting_;
  out.queued = static_cast<std::int64_t>(desk_.outside_slots());
  out.lanes = desk_.lanes();
  if (state_ != State::ready) return out;
  out.draining = gives_way_ || reload_holds_;
  out.below_floor = below_floor_;
  out.stale = files_changed_ ? "files" : window_outgrown() ? "window" : "";
  out.bytes = granted_.weights_bytes + granted_.repack_bytes + granted_.kv_bytes + granted_.compute_bytes;
  out.slots = granted_.slots;
  out.slots_busy = std::min(desk_.in_slots(), granted_.slots);
  out.context = granted_.context_per_slot;
  if (!busy()) {
    out.idle_ms = idle_.idle_for(now, wall).count();
    out.unload_at = idle_.unload_at();
  }
  out.chat_template = granted_.chat_template;
  out.profile = profile_;
  out.flash_attention = granted_.flash_attention;
  out.kv_type = granted_.kv_type;
  if (granted_.drafts) out.draft_model = fs::path(load_.draft.model_path).filename().string();
  if (draft_note_) out.draft_unused = draft_note_->text;
  out.threads = threads_;
  out.nice = nice_;
  if (stats_) {
    out.decode_tps = stats_->decode_tps;
    out.prefill_tps = stats_->prefill_tps;
  }
  return out;
}

// --- use

engine::EngineResult<std::shared_ptr<Run>> Core::submit(prompt::GenerateRequest request) {
  if (disposed_) return std::unexpected(make_error("engine-evicted", "The model was unloaded. Ask again."));
  look_for_reload();
  if (!options_.prompt_cache.per_tenant) request.tenant.clear();
  auto run = desk_.submit(std::move(request));
  settle_reload();
  if (run) {
    hits_.push_back(parts_.clock.now());
    if (hits_.size() > kMostHits) hits_.pop_front();
  }
  if (run && state_ == State::stopped) begin_start();
  // It may be more urgent than what this model had to do so far.
  if (run && parts_.admission && parts_.admission->waiting() > 0) parts_.admission->changed();
  return run;
}

asio::awaitable<EngineResult<>> Core::ensure_ready() {
  const auto self = shared_from_this();
  while (true) {
    if (disposed_)
      co_return std::unexpected(make_error("engine-evicted", "The model was unloaded. Ask again."));
    if (state_ == State::ready) {
      mark_used();
      co_return EngineResult<>();
    }
    // A start may be over before begin_start() returns.
    if (auto start = state_ == State::stopped ? begin_start() : start_) {
      struct Waiting {  // also when the waiting coroutine is destroyed
        Core& core;
        Start& start;
        ~Waiting() {
          --start.waiters;
          if (!start.result) core.abort_start_if_unwanted();
        }
      };
      ++start->waiters;
      const Waiting waiting{*this, *start};
      while (!start->result) {
        if (!co_await start->settled.wait() && !start->result)
          co_return std::unexpected(make_error("cancelled", "Waiting for the model was cancelled."));
      }
      co_return *start->result;
    }
    if (!co_await changed_.wait())
      co_return std::unexpected(make_error("cancelled", "Waiting for the model was cancelled."));
  }
}

void Core::mark_used() {
  if (state_ != State::ready) return;
  idle_.mark_used(parts_.clock.now(), parts_.clock.wall_now());
  on_idle_deadline();
}

int Core::hits_last_minute() const {
  const auto since = parts_.clock.now() - std::chrono::minutes(1);
  return static_cast<int>(hits_.end() - std::ranges::lower_bound(hits_, since));
}

void Core::on_idle_deadline() {
  if (state_ != State::ready) return idle_timer_->cancel();
  switch (idle_.on_deadline(parts_.clock.now(), parts_.clock.wall_now(), works())) {
    case engine::IdlePolicy::Action::stop:
      log_info("unloading an idle model", {{"model", model_id_}});
      return stop_launch(StopReason::idle);
    case engine::IdlePolicy::Action::freeze:
      order_cache("flush");
      break;
    case engine::IdlePolicy::Action::none:
      break;
  }
  if (const auto next = idle_.next_deadline()) idle_timer_->arm(*next, [this] { on_idle_deadline(); });
}

// --- good manners

void Core::set_manners(engine::Manners manners) {
  manners_ = manners;
  apply_manners();
}

// Priority from the spawn on, because a load computes, too; threads once there is somebody to tell.
void Core::apply_manners() {
  const auto orders = capacity::neighbour_orders({.yielding = manners_.yielding}, std::max(1, load_.threads),
                                                 manners_.pressured);
  Millis idle = options_.idle_timeout;
  if (orders.idle_unload_ms)
    idle = idle > Millis(0) ? std::min(idle, Millis(*orders.idle_unload_ms)) : Millis(*orders.idle_unload_ms);
  idle_.set_budget(idle);
  on_idle_deadline();
  if (!launch_ || state_ == State::stopping) return;
  if (nice_ != orders.nice) {
    if (launch_->set_nice(orders.nice))
      nice_ = orders.nice;
    else
      log_warn("the kernel does not let this user change a model's priority; its next load has the usual one",
               {{"model", model_id_}, {"nice", std::to_string(nice_)}});
  }
  if (stage_ == Stage::ready && threads_ != orders.threads) {
    threads_ = orders.threads;
    launch_->send(protocol::encode(protocol::Control{0, "set_threads", threads_}));
  }
  if (manners_.pressured && !std::exchange(told_pressure_, manners_.pressured)) order_cache("shrink");
  told_pressure_ = manners_.pressured;
}

// Nobody waits for the answer.
void Core::order_cache(std::string op) {
  if (!launch_ || stage_ != Stage::ready || state_ != State::ready) return;
  protocol::CacheQuery order;
  order.op = std::move(op);
  launch_->send(protocol::encode(order));
}

// --- stopping

void Core::stop_launch(StopReason reason) {
  if (reason != StopReason::reload) load_again_ = false;
  calibrator_.ended();
  idle_timer_->cancel();
  start_timer_->cancel();
  desk_.close();
  if (!launch_) return;
  set_state(State::stopping);
  // A loaded model writes what it computed; one that is loading has nothing.
  launch_->stop(reason, stage_ == Stage::ready ? Millis(load_.cache.stop_ms) : Millis(0));
}

EngineError Core::unloaded_error(const Run& run) const {
  // With text on its way to a client the stream broke; without, the request can simply be sent again.
  auto error =
      run.characters > 0
          ? make_error(
                "stream-dropped",
                fmt::format("The model was unloaded after {} characters of the answer.", run.characters))
          : make_error("engine-evicted", "The model was unloaded before it answered. Ask again to load it.");
  error.characters_delivered = run.characters;
  return error;
}

asio::awaitable<engine::StopOutcome> Core::stop(StopReason reason) {
  const auto self = shared_from_this();
  const bool was_running = launch_ || start_ || !desk_.empty();
  desk_.fail_all([this](const Run& run) { return unloaded_error(run); });
  settle(std::unexpected(make_error("engine-evicted", "The model was unloaded while it was loading.")));
  if (const auto ending = launch_) {
    stop_launch(reason);
    while (launch_ == ending) {
      if (!co_await changed_.wait()) break;
    }
  }
  co_return engine::StopOutcome{was_running};
}

void Core::dispose() {
  disposed_ = true;
  keep_verifying_->store(false);
  desk_.fail_all([this](const Run& run) { return unloaded_error(run); });
  settle(std::unexpected(make_error("engine-evicted", "The model was unloaded while it was loading.")));
  desk_.close();
  idle_timer_->cancel();
  start_timer_->cancel();
  stats_timer_->cancel();
  reload_timer_->cancel();
  calibrator_.ended();
  load_again_ = false;
  if (launch_) launch_->abandon();
  launch_.reset();
  dying_.reset();
  seat_.reset();
  gpu_hold_.reset();
  pid_file_.reset();
  set_state(State::stopped);
}

// --- the end of a worker

void Core::on_ended(const engine::ExitSnapshot& snapshot) {
  const auto ended = std::exchange(launch_, nullptr);
  // Killed, but its gigabytes are still being freed: the seat and the GPU are given back with them.
  if ((seat_ || gpu_hold_) && !snapshot.status) {
    const auto kept = std::make_shared<Kept>(parts_.loop);
    kept->seat = std::move(seat_);
    if (gpu_hold_)
      kept->gpu = parts_.gpu->arbiter().add(engine::GpuSlot::llm, ledger_key(),
                                            [gone = kept->gone]() -> asio::awaitable<void> {
                                              while (!gone->yes && co_await gone->told.wait()) {
                                              }
                                            });
    dying_ = ended;
    ended->keep_until_exit(kept);
  }
  calibrator_.ended();
  seat_.reset();
  desk_.close();  // before what was held would be sent
  keep_window_ = snapshot.expected == StopReason::reload ? granted_.context_per_slot : 0;
  gives_way_ = false;
  launch_input_.reset();
  drop_reload();
  pid_file_.reset();
  gpu_hold_.reset();
  start_timer_->cancel();
  idle_timer_->cancel();
  stats_arrived_.notify();
  cache_questions_.end();
  turns_.clear();
  stats_.reset();
  log_.line("exit " + to_json(engine::incident_json(snapshot)));

  if (unexpected(snapshot)) {
    // On disk before anybody who lost a request by it hears of it.
    incidents_.append(snapshot);
    budget_.record_failure(parts_.clock.now());
    quarantine_.record_exit(identity_, snapshot);
    log_error("engine process ended unexpectedly", {{"model", model_id_},
                                                    {"pid", std::to_string(snapshot.pid)},
                                                    {"how", describe_end(snapshot)},
                                                    {"incident", snapshot.incident_id}});
  } else {
    log_info("engine process ended",
             {{"model", model_id_}, {"reason", std::string(stop_reason_name(snapshot.expected))}});
  }

  if (start_) return settle(std::unexpected(start_crash_error(snapshot)));
  set_state(State::stopped);
  if (unexpected(snapshot)) {
    // Another try may hit the same wall; where memory ran out (or may have) it would hurt the whole machine.
    const bool retry = !out_of_memory(snapshot) && snapshot.panic_kind != "killed";
    desk_.fail_admitted([&](const Run& run) { return crash_error(snapshot, run.characters); }, retry,
                        engine::may_be_a_requests_doing(snapshot));
  }
  const bool again = std::exchange(load_again_, false);
  if (!disposed_ && (desk_.waiting() > 0 || again) && state_ == State::stopped) begin_start();
}

EngineError Core::crash_error(const engine::ExitSnapshot& snapshot, std::int64_t characters) const {
  EngineError error;
  if (out_of_memory(snapshot)) {
    error = make_error(
        "engine-out-of-memory",
        fmt::format("The engine ran out of {} memory after {} characters. Use fewer slots (--slots), a "
                    "shorter context (--ctx) or a smaller model.",
                    snapshot.panic_kind.starts_with("host") ? "main" : "device", characters));
  } else if (!snapshot.status) {
    error = make_error("stream-dropped",
                       fmt::format("The connection to the engine broke after {} characters ({}).", characters,
                                   describe_end(snapshot)));
  } else {
    error = make_error(
        "engine-crashed",
        fmt::format("The engine crashed after {} characters of the answer ({}). It starts again with the "
                    "next request; details are in incident {}.",
                    characters, describe_end(snapshot), snapshot.incident_id));
  }
  error.incident_id = snapshot.incident_id;
  error.characters_delivered = characters;
  return error;
}

EngineError Core::start_crash_error(const engine::ExitSnapshot& snapshot) const {
  if (out_of_memory(snapshot)) return crash_error(snapshot, 0);
  const auto phase = deadline_ && !deadline_->phase().empty() ? deadline_->phase() : "start-up";
  auto error =
      make_error("engine-crashed",
                 fmt::format("The engine exited before the model was ready ({}, during {}). Details are in "
                             "incident {} and in `gezel doctor`.",
                             describe_end(snapshot), phase, snapshot.incident_id));
  error.incident_id = snapshot.incident_id;
  return error;
}

// --- statistics

asio::awaitable<std::optional<std::string>> Core::worker_stats() {
  const auto self = shared_from_this();
  if (state_ != State::ready) co_return std::nullopt;
  const auto asked = stats_serial_;
  const auto generation = generation_;
  ask_for_stats();
  const auto give_up = parts_.clock.now() + kStatsTime;
  stats_timer_->arm(give_up, [this] { stats_arrived_.notify(); });
  while (stats_serial_ == asked && state_ == State::ready && generation_ == generation &&
         parts_.clock.now() < give_up) {
    if (!co_await stats_arrived_.wait()) break;
  }
  if (stats_serial_ == asked || generation_ != generation) co_return std::nullopt;
  co_return stats_text_;
}

}  // namespace gezel::engine_llama
