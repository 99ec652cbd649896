#include "engine_llama/request_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "engine/exit.h"

namespace gezel::engine_llama {

using engine::EngineError;
using engine::EngineResult;
using engine::make_error;
using engine::TurnWatchdog;

RequestDesk::RequestDesk(boost::asio::any_io_executor loop, const Clock& clock, engine::Timers& timers,
                         engine::WatchdogLimits limits, Hooks hooks, engine::RequestQueue::Settings queue)
    : loop_(std::move(loop)),
      clock_(clock),
      limits_(limits),
      hooks_(std::move(hooks)),
      queue_(clock.now(), queue),
      notice_timer_(timers.make()),
      watch_timer_(timers.make()),
      deadline_timer_(timers.make()),
      ambient_timer_(timers.make()) {}

EngineResult<std::shared_ptr<Run>> RequestDesk::submit(prompt::GenerateRequest request) {
  if (auto known = check_tokens(request); !known) return std::unexpected(known.error());
  auto run = std::make_shared<Run>(loop_, ++last_id_, std::move(request));
  run->since = run->waits_since = clock_.now();
  run->waits_since_wall = clock_.wall_now();
  run->watchdog = TurnWatchdog(limits_);
  if (!queue_.push(entry_of(*run), run->since)) {
    return std::unexpected(make_error(
        "engine-busy",
        fmt::format("{} requests for this model wait already, which is the limit. Try again when some are "
                    "answered, or send fewer at once.",
                    engine::RequestQueue::kMaxWaiting)));
  }
  runs_.emplace(run->id, run);
  hooks_.used();
  admit();
  arm_notice();
  arm_deadlines();
  return run;
}

engine::RequestQueue::Entry RequestDesk::entry_of(const Run& run) const {
  return {run.id, run.lane, run.terms.ambient, run.since, run.session, run.terms.caller};
}

// A bias for a token that does not exist would change nothing, and nobody would notice.
EngineResult<> RequestDesk::check_tokens(const prompt::GenerateRequest& request) const {
  if (vocabulary_ == 0) return {};
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    if (token < vocabulary_) continue;
    const std::string param = fmt::format("logit_bias.{}", token);
    return std::unexpected(make_error(
        "invalid-request",
        fmt::format("{}: the model has no token {}; its vocabulary has {} tokens, with ids from 0 to {}",
                    param, token, vocabulary_, vocabulary_ - 1),
        param));
  }
  return {};
}

std::shared_ptr<Run> RequestDesk::find(std::uint64_t id) const {
  const auto found = runs_.find(id);
  return found == runs_.end() || found->second->place == Run::Place::waiting ? nullptr : found->second;
}

int RequestDesk::in_slots() const {
  return static_cast<int>(
      std::ranges::count_if(runs_, [](const auto& entry) { return entry.second->in_slot; }));
}

// --- the gate

void RequestDesk::open(int slots, std::int64_t window, std::int64_t vocabulary, prompt::WritingStyle style) {
  window_ = window;
  vocabulary_ = vocabulary;
  style_ = std::move(style);
  open_ = true;
  queue_.set_widths(engine::queue_widths(engine::QueueKind::embedded, slots));
  load_waits_.clear();
  decode_steps_ = 0;
  admit();
  arm_notice();
}

void RequestDesk::close() {
  open_ = false;
  queue_.set_widths({});
  ambient_timer_->cancel();
  window_ = vocabulary_ = 0;  // what is loaded next may be another file, in another window
  watch_timer_->cancel();
}

void RequestDesk::hold(bool on) {
  held_ = on;
  if (!on) admit();
}

void RequestDesk::admit() {
  const auto now = clock_.now();
  while (!held_) {
    const auto id = queue_.pop(now);
    if (!id) break;
    if (!send_generate(*runs_.at(*id))) break;
  }
  if (const auto again = open_ && !held_ ? queue_.recheck(now) : std::nullopt)
    ambient_timer_->arm(*again, [this] { admit(); });
  tell_places();
}

bool RequestDesk::send_generate(Run& run) {
  run.place = Run::Place::admitted;
  const auto refuse = [&](EngineError error) {
    run.end(engine::Failed{std::move(error)});
    leave(runs_.at(run.id));
    return true;
  };
  if (window_ > 0 && run.needs > window_) {
    auto no = hooks_.needs_longer(run);
    if (!no) {
      wait_again(run);  // its place in the queue has just become free
      return false;
    }
    // What was loaded for it fell short. If that is what it asked for, a shorter answer will do.
    const auto asked = run.request.context.value_or(0);
    if (!run.too_long || asked > window_) return refuse(std::move(*no));
    run.needs = asked;
    run.settles = true;
  }
  if (auto known = check_tokens(run.request); !known) return refuse(std::move(known).error());
  run.told_possible = run.settles ? 0 : hooks_.longest_window();
  std::string frame = protocol::encode(protocol::Generate{run.id, run.request, run.told_possible});
  if (auto fits = protocol::check_frame_size(frame); !fits)
    return refuse(make_error("invalid-request", fits.error().message));
  if (!intake_deadline()) intake_moved_ = clock_.now();
  run.in_intake = true;
  arm_watch();
  hooks_.send(std::move(frame));
  return true;
}

std::vector<std::int64_t> RequestDesk::needed_windows() const {
  std::set<std::int64_t, std::greater<>> needed;
  for (const auto& [id, run] : runs_) {
    if (run->place == Run::Place::waiting && run->needs > 0) needed.insert(run->needs);
  }
  return {needed.begin(), needed.end()};
}

void RequestDesk::refuse_longer(std::int64_t limit, const std::function<EngineError(const Run&)>& because) {
  std::vector<std::shared_ptr<Run>> refused;
  for (const auto& [id, run] : runs_) {
    if (run->place == Run::Place::waiting && run->needs > limit) refused.push_back(run);
  }
  for (const auto& run : refused) {
    run->end(engine::Failed{because(*run)});
    leave(run);
  }
}

// Back to where it was in the queue, with as long to wait as at first. False: the queue is full.
bool RequestDesk::wait_again(Run& run) {
  queue_.finish(run.id, clock_.now());
  if (!queue_.push(entry_of(run), clock_.now())) return false;
  leave_intake(run);
  run.in_slot = false;
  run.place = Run::Place::waiting;
  run.waits_since = clock_.now();
  run.waits_since_wall = clock_.wall_now();
  arm_deadlines();
  return true;
}

void RequestDesk::leave_intake(Run& run) {
  if (std::exchange(run.in_intake, false)) intake_moved_ = clock_.now();
}

void RequestDesk::leave(const std::shared_ptr<Run>& run) {
  leave_intake(*run);
  run->place = Run::Place::over;
  run->in_slot = false;
  queue_.remove(run->id);
  queue_.finish(run->id, clock_.now());
  runs_.erase(run->id);
  hooks_.used();
  admit();
  hooks_.left();
}

// --- cancelling and ending

void RequestDesk::cancel(Run& run) {
  if (run.place == Run::Place::waiting) {
    run.end(engine::Failed{make_error("aborted-while-queued", "The request was cancelled while it waited.")},
            true);
    leave(runs_.at(run.id));
  } else if (run.place == Run::Place::admitted) {
    abandon(run, engine::Failed{make_error("cancelled", "The request was cancelled.")}, true);
  }
}

void RequestDesk::abandon(Run& run, engine::Event last, bool drop_waiting) {
  run.end(std::move(last), drop_waiting);
  run.place = Run::Place::abandoned;
  run.paused = false;
  // The worker must give the slot back before this budget ends too.
  run.watchdog = TurnWatchdog(limits_);
  run.watchdog.start(clock_.now(), decode_steps_);
  arm_watch();
  hooks_.send(protocol::encode_cancel(run.id));
  hooks_.left();
}

void RequestDesk::fail_all(const Because& because) {
  queue_.clear();
  for (const auto& [id, run] : std::exchange(runs_, {})) {
    if (run->place != Run::Place::abandoned) run->end(engine::Failed{because(*run)});
    run->place = Run::Place::over;
    run->in_intake = run->in_slot = false;
  }
  hooks_.used();
  hooks_.left();
}

void RequestDesk::fail_admitted(const Because& because, bool retry, bool their_doing) {
  close();
  std::vector<std::shared_ptr<Run>> gone;
  for (const auto& [id, run] : runs_) {
    if (run->place != Run::Place::waiting) gone.push_back(run);
  }
  const bool one_suspect = in_slots() == 1;
  for (const auto& run : gone) {
    const bool suspect = their_doing && run->in_slot && (one_suspect || run->retried);
    run->in_intake = run->in_slot = run->paused = false;
    const bool again = retry && !suspect && !run->verdict && run->place == Run::Place::admitted &&
                       !run->retried && run->characters == 0;
    if (again && wait_again(*run)) {
      run->retried = true;
      run->tokens = 0;
      run->watchdog = TurnWatchdog(limits_);
      continue;
    }
    if (run->place == Run::Place::admitted) {
      auto error = because(*run);
      if (run->verdict) {
        run->verdict->incident_id = error.incident_id;
        error = *run->verdict;
      } else if (suspect) {
        error.retry = engine::Retry::never;
        error.error.message +=
            " What this request made it compute may be the reason: do not repeat it unchanged.";
      }
      run->end(engine::Failed{std::move(error)});
    }
    leave(run);
  }
}

// --- silence

// The worker watches its intake itself, and ends when something does not get on there. Here it is only
// noticed that even this failed.
std::optional<MonotonicTime> RequestDesk::intake_deadline() const {
  if (std::ranges::none_of(runs_, [](const auto& entry) { return entry.second->in_intake; }))
    return std::nullopt;
  return intake_moved_ + limits_.intake;
}

void RequestDesk::arm_watch() {
  std::optional<MonotonicTime> first = intake_deadline();
  for (const auto& [id, run] : runs_) {
    const auto deadline = run->watchdog.deadline();
    if (deadline && (!first || *deadline < *first)) first = deadline;
  }
  // Everything but a run's first text moves deadlines back, so a timer that fires early just looks again.
  if (first) watch_timer_->arm(*first, [this] { watch(); });
}

void RequestDesk::watch() {
  const auto now = clock_.now();
  if (const auto deadline = intake_deadline(); deadline && now >= *deadline) {
    hooks_.broken(engine::kStuck,
                  fmt::format("no request left its intake within {} s", limits_.intake / Millis(1000)));
    return;
  }
  std::vector<std::shared_ptr<Run>> all;  // expiring one changes the map
  for (const auto& [id, run] : runs_) all.push_back(run);
  for (const auto& run : all) {
    const auto verdict = run->watchdog.check(now, decode_steps_);
    if (verdict == TurnWatchdog::Verdict::fine) continue;
    if (run->place == Run::Place::abandoned) {
      hooks_.broken(engine::kStuck, fmt::format("it did not end a cancelled request within {} s",
                                                run->watchdog.silence() / Millis(1000)));
      return;
    }
    expire(*run, verdict);
  }
  arm_watch();
}

void RequestDesk::expire(Run& run, TurnWatchdog::Verdict verdict) {
  const bool whole_turn = verdict == TurnWatchdog::Verdict::turn;
  const auto budget = (whole_turn ? limits_.turn : run.watchdog.silence()) / Millis(1000);
  // What arrived is worth more than an error; the caller learns why it ends here. But half of an answer
  // that must have a form does not have it.
  if (run.characters > 0 && !whole_turn && !run.has_form) {
    engine::Done done;
    done.usage = {run.prompt_tokens, run.tokens, run.cached_tokens};
    done.warnings.push_back(
        fmt::format("The engine went silent for {} s; the text may be incomplete.", budget));
    return abandon(run, std::move(done), false);
  }
  EngineError error;
  if (whole_turn) {
    error = make_error("turn-timeout",
                       fmt::format("The answer took longer than {} s, the limit of one turn.", budget));
  } else if (verdict == TurnWatchdog::Verdict::before_text) {
    // The numbers are the worker's word: no product of them is formed that could overflow.
    const double share = run.prefill_total > 0
                             ? static_cast<double>(run.prefill_done) / static_cast<double>(run.prefill_total)
                             : 0.0;
    const auto percent = static_cast<int>(100 * std::clamp(share, 0.0, 1.0));
    error = make_error(
        "idle-before-first-byte",
        fmt::format("No text for {} s: {} of {} prompt tokens ({} %) were read. Try a shorter prompt.",
                    budget, run.prefill_done, run.prefill_total, percent));
  } else {
    error = make_error("idle-mid-stream", fmt::format("The engine went silent for {} s after {} characters.",
                                                      budget, run.characters));
  }
  error.characters_delivered = run.characters;
  abandon(run, engine::Failed{std::move(error)}, false);
}

}  // namespace gezel::engine_llama
