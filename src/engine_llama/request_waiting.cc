// Requests that wait, for memory or for a place: what they are told, and how long they wait. The time counts
// by the clock on the wall as well, looked at every two seconds, so that a machine's sleep does not make a
// wait longer.
#include <fmt/format.h>

#include <algorithm>

#include "engine_llama/request_desk.h"

namespace gezel::engine_llama {

using engine::EngineError;
using engine::Progress;

// Where a request stands is told only to those who wait noticeably, and only when it changed. While a model
// loads they hear about that instead.
void RequestDesk::tell_places() {
  if (!open_ && load_waits_.empty()) return;
  const auto now = clock_.now();
  std::size_t before = open_ ? admitted() : 0;
  for (const auto id : queue_.order(now)) {
    Run& run = *runs_.at(id);
    if (now - run.since >= kNoticeAfter) {
      if (open_)
        tell(run, static_cast<std::int64_t>(before), {});
      else
        tell(run, load_ahead_, load_waits_);
    }
    ++before;
  }
}

void RequestDesk::tell(Run& run, std::int64_t ahead, const std::string& reason) {
  if (ahead == run.last_ahead && reason == run.last_reason) return;
  run.last_ahead = ahead;
  run.last_reason = reason;
  run.push(Progress{Progress::Stage::queued, ahead, 0, 0, reason});
}

void RequestDesk::arm_notice() {
  if (notice_armed_ || queue_.empty() || (!open_ && load_waits_.empty())) return;
  notice_armed_ = true;
  notice_timer_->arm(clock_.now() + kNoticeAfter, [this] {
    notice_armed_ = false;
    tell_places();
    const bool more = std::ranges::any_of(runs_, [](const auto& entry) {
      return entry.second->place == Run::Place::waiting && entry.second->last_ahead < 0;
    });
    if (more) arm_notice();
  });
}

void RequestDesk::note_loading(std::int64_t per_mille) {
  for (const auto& [id, run] : runs_) {
    if (run->place == Run::Place::waiting)
      run->push(Progress{Progress::Stage::load, 0, std::clamp<std::int64_t>(per_mille, 0, 1000), 1000});
  }
}

void RequestDesk::note_waiting(std::int64_t ahead, const std::string& reason) {
  load_waits_ = reason;
  load_ahead_ = ahead;
  tell_places();
  arm_notice();
}

// --- who does what

std::optional<prompt::Lane> RequestDesk::lane() const {
  std::optional<prompt::Lane> best;
  for (const auto& [id, run] : runs_) {
    const bool wanted = run->place == Run::Place::admitted || run->place == Run::Place::waiting;
    if (wanted && (!best || run->lane < *best)) best = run->lane;
  }
  return best;
}

engine::LaneLoads RequestDesk::lanes() const {
  engine::LaneLoads out;
  for (const auto& [id, run] : runs_) {
    auto& load = out[static_cast<std::size_t>(run->lane)];
    ++(run->in_slot ? load.running : load.queued);
  }
  return out;
}

// --- deadlines

namespace {

Millis limit_of(const Run& run) {
  return run.terms.wait_limit.value_or(run.lane == prompt::Lane::interactive ? kInteractiveWait
                                                                             : kBackgroundWait);
}

// The longer of both clocks: a clock that was set back takes nothing away.
Millis waited(const Run& run, const Clock& clock) {
  return std::max(std::chrono::duration_cast<Millis>(clock.now() - run.waits_since),
                  std::chrono::duration_cast<Millis>(clock.wall_now() - run.waits_since_wall));
}

}  // namespace

void RequestDesk::arm_deadlines() {
  if (deadlines_armed_ || queue_.empty()) return;
  deadlines_armed_ = true;
  deadline_timer_->arm(clock_.now() + kDeadlineTick, [this] {
    deadlines_armed_ = false;
    check_deadlines();
    arm_deadlines();
  });
}

void RequestDesk::check_deadlines() {
  if (hooks_.loading && hooks_.loading()) return;
  std::size_t ahead = open_ ? admitted() : 0;
  for (const auto id : queue_.order(clock_.now())) {
    const auto found = runs_.find(id);
    // It left with one before it, or was sent to the worker because that one left.
    if (found == runs_.end() || found->second->place != Run::Place::waiting) continue;
    const auto run = found->second;
    if (waited(*run, clock_) < limit_of(*run)) {
      ++ahead;
      continue;
    }
    run->end(engine::Failed{waited_too_long(*run, ahead)}, true);
    leave(run);
  }
}

EngineError RequestDesk::waited_too_long(const Run& run, std::size_t ahead) const {
  std::string what = load_waits_;
  if (what.empty()) {
    what = held_ ? std::string("waiting until the model, which makes room for another one, is loaded again")
                 : fmt::format("waiting for a place in this model's queue, {} ahead", ahead);
  }
  return engine::make_error(
      "engine-busy",
      fmt::format(
          "The request waited {} s, as long as it may: {}. Try again later, let it wait longer (header "
          "X-Gezel-Queue-Timeout), or unload a model (`gezel ps`, `gezel stop`).",
          limit_of(run) / Millis(1'000), what));
}

}  // namespace gezel::engine_llama
