// The window of a loaded model and what would change it. A request that needs a longer one, files that are
// other ones now, and a window that memory kept short all lead to the same: when nobody is being answered the
// worker is stopped, and the start that follows plans anew for everybody who waits. Nothing is stopped for a
// window that a load would not get.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <functional>

#include "base/log.h"
#include "engine/on_pool.h"
#include "engine_llama/embedded_core.h"

namespace gezel::engine_llama {

using capacity::Tokens;
using capacity::WindowReach;
using engine::EngineError;
using engine::make_error;
using engine::State;
using engine::StopReason;

namespace {

// Distinct windows that one start tries; the shortest of more are left out.
constexpr std::size_t kMostWindows = 8;

std::string_view reload_text(bool files) {
  return files ? "waiting for running answers to end; then its new files are loaded"
               : "waiting for running answers to end; then it is loaded with a longer window";
}

}  // namespace

// --- when it is loaded again

// With `hold` nothing new is sent to the worker from now on; else only once it has gone on for a minute like
// that: a model that is never idle is exchanged too.
void Core::want_reload(Reload why, bool hold) {
  const bool known = reload_ >= why;
  reload_ = std::max(reload_, why);
  if (!hold) {
    if (known) return;  // its minute has begun
    reload_timer_->arm(parts_.clock.now() + engine::kLongWait, [this] {
      if (reload_ == Reload::none) return;
      want_reload(reload_, true);
      settle_reload();
    });
    return;
  }
  if (std::exchange(reload_holds_, true)) return;
  desk_.hold(true);
  if (desk_.admitted() == 0) return;
  waiting_ = reload_text(reload_ == Reload::files);
  log_info("a model is to be loaded again", {{"model", model_id_}, {"reason", waiting_}});
  desk_.note_waiting(0, waiting_);
}

void Core::drop_reload() {
  if (reload_holds_) note_waiting_over();
  reload_ = Reload::none;
  reload_holds_ = false;
  reload_timer_->cancel();
  desk_.hold(gives_way_);
}

// Something about the requests changed: the worker may be idle now, or nobody needs the reload any more.
void Core::settle_reload() {
  if (reload_ == Reload::none || state_ != State::ready) return;
  const auto needed = desk_.needed_windows();
  const bool in_need = !needed.empty() && needed.front() > granted_.context_per_slot;
  if ((reload_ == Reload::need && !in_need) || (reload_ == Reload::window && desk_.waiting() == 0)) {
    grow_to_ = 0;
    return drop_reload();
  }
  if (works()) return;
  if (!may_reload()) {
    const bool files = reload_ == Reload::files;
    if (files && !reload_holds_) return;  // asked again when its minute is over
    grow_to_ = 0;
    drop_reload();
    if (files) want_reload(Reload::files, false);
    return;
  }
  log_info("loading a model again",
           {{"model", model_id_},
            {"reason", reload_ == Reload::files ? "its files changed" : "its window"},
            {"window", std::to_string(granted_.context_per_slot)}});
  if (reload_ == Reload::window) {
    grown_from_ = load_.context_per_slot;
    grown_at_ = parts_.clock.now();
  }
  stop_launch(StopReason::reload);
}

// While memory is short nothing is loaded, and what is stopped would stay so. What is stopped for a need goes
// to another model that waits, and the need is not met.
bool Core::may_reload() const {
  if (!parts_.admission) return true;
  return !parts_.admission->holds() && !(reload_ == Reload::need && parts_.admission->waiting() > 0);
}

// A request comes.
void Core::look_for_reload() {
  if (state_ != State::ready) return;
  const auto now = parts_.clock.now();
  if (!files_changed_ && now - files_checked_at_ >= kFilesEvery) {
    files_checked_at_ = now;
    asio::co_spawn(parts_.loop, check_files(generation_), asio::detached);
  }
  // A window that nobody needs is not worth anybody's waiting.
  if (reload_ != Reload::none || !desk_.empty() || !parts_.admission || parts_.admission->waiting() > 0)
    return;
  const auto residency = std::max<MonotonicTime::duration>(ready_at_ - launched_at_, engine::kLeastResidency);
  if (now - ready_at_ >= residency && window_outgrown()) want_reload(Reload::window, true);
}

asio::awaitable<void> Core::check_files(std::uint64_t generation) {
  const auto self = shared_from_this();
  const auto found =
      co_await engine::on_pool(parts_.pool, [models = parts_.models] { return models->find(); });
  // Files that are gone are the next start's to complain about.
  if (generation != generation_ || !found || !loaded_ || same_files(*found, *loaded_)) co_return;
  log_info("a loaded model's files changed", {{"model", model_id_}});
  refresh();
}

void Core::refresh() {
  if (disposed_) return;
  files_changed_ = true;  // a start under way looks again before it loads
  if (state_ != State::ready) return;
  want_reload(Reload::files, false);
  settle_reload();
}

bool Core::window_outgrown() const {
  if (state_ != State::ready || !launch_input_ || parts_.admission->holds()) return false;
  // The usual case costs nothing.
  if (load_.context_per_slot >= capacity::launch_requirement(*launch_input_).requested) return false;
  // A load for it brought nothing: what it is planned with is not what it gets.
  if (load_.context_per_slot <= grown_from_ && parts_.clock.now() - grown_at_ < kGrowPause) return false;
  auto input = *launch_input_;
  input.machine = parts_.admission->state_for(input.model.key);
  return capacity::outgrown(load_.context_per_slot, capacity::plan_window(std::move(input), 0));
}

// --- what a request can have

WindowReach Core::window_reach() const {
  if (!launch_input_) return {};
  auto input = *launch_input_;
  input.machine = parts_.admission->state_for(input.model.key);
  auto reach = capacity::window_reach(input);
  // Nothing is loaded now, or another model first.
  if (parts_.admission->holds() || parts_.admission->waiting() > 0) {
    reach.largest = 0;
    reach.binding = capacity::Binding::live_memory;
  }
  return reach;
}

std::int64_t Core::longest_window() {
  if (!launch_input_) return 0;
  if (granted_.context_per_slot >= capacity::launch_requirement(*launch_input_).limit) return 0;
  const auto now = parts_.clock.now();
  if (!known_reach_ || known_reach_->at < ready_at_ || now - known_reach_->at >= kReachAge)
    known_reach_ = Known{window_reach(), now};
  Tokens largest = known_reach_->reach.largest;
  if (missed_ && now - missed_->at < kMissedPause) largest = std::min(largest, missed_->needed - 1);
  return largest > granted_.context_per_slot ? largest : 0;
}

std::optional<EngineError> Core::needs_longer(const Run& run) {
  const auto reach = window_reach();
  const bool missed =
      missed_ && run.needs >= missed_->needed && parts_.clock.now() - missed_->at < kMissedPause;
  const Tokens target = missed ? 0 : capacity::reload_target(reach, granted_.context_per_slot, run.needs);
  if (target == 0) return window_error(run, reach);
  grow_to_ = std::max(grow_to_, target);
  want_reload(Reload::need, true);
  return std::nullopt;
}

EngineError Core::window_error(const Run& run, const WindowReach& reach) const {
  const Tokens granted = state_ == State::ready ? granted_.context_per_slot : 0;
  const bool never = run.needs > reach.limit;
  std::string why;
  if (reach.limit > 0) why = " " + capacity::window_shortage(model_id_, run.needs, granted, reach);
  EngineError error;
  if (run.too_long) {
    error = *run.too_long;
    error.error.message += why;
  } else {
    const std::string loaded = granted > 0 ? fmt::format("; {} are loaded", granted) : std::string();
    const Tokens most = std::max(granted, never ? reach.limit : reach.largest);
    error = make_error(
        never ? "context-overflow" : "capacity-denied",
        fmt::format("num_ctx asks for a window of {} tokens{}.{} Ask for at most {}{}.", run.needs, loaded,
                    why, most, never ? "" : ", or unload other models (`gezel ps` lists them)"),
        "num_ctx");
  }
  error.context_tokens = granted;
  error.window = engine::WindowNumbers{.needed = run.needs,
                                       .granted = granted,
                                       .native = reach.native,
                                       .limit = reach.limit,
                                       .largest = std::max(granted, reach.largest),
                                       .binding = reach.binding == capacity::Binding::none
                                                      ? ""
                                                      : std::string(capacity::binding_name(reach.binding))};
  return error;
}

// --- for a start

// The longest first; 0, the last, is whatever fits.
std::vector<Tokens> Core::windows_to_try() const {
  std::vector<Tokens> out = desk_.needed_windows();
  out.push_back(grow_to_);
  out.push_back(keep_window_);
  std::ranges::sort(out, std::greater<>());
  const auto same = std::ranges::unique(out);
  out.erase(same.begin(), same.end());
  std::erase(out, 0);
  if (out.size() > kMostWindows) out.resize(kMostWindows);
  out.push_back(0);
  return out;
}

void Core::refuse_beyond_limit(const capacity::LaunchInput& input) {
  const Tokens limit = capacity::launch_requirement(input).limit;
  const auto needed = desk_.needed_windows();
  if (needed.empty() || needed.front() <= limit) return;
  const auto reach = capacity::window_reach(input);
  desk_.refuse_longer(limit, [&](const Run& run) { return window_error(run, reach); });
}

}  // namespace gezel::engine_llama
