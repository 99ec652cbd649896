// The first in the queue decides anew whenever something changed: its plan is asked for in the state of that
// moment, and what the plan lacks is asked of the engines that hold it. Nothing is computed ahead, so that no
// load starts on figures from before another one.
#include "engine/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/log.h"

namespace gezel::engine {

using capacity::Decision;
using capacity::MachineState;
using capacity::MemoryPlan;
using prompt::Lane;

namespace {

// More than any engine has in a minute (kMostHits of an engine that counts them).
constexpr int kManyHits = 1'000'000;

bool same_model(const std::string& one, const std::string& other) {
  const auto a = capacity::parse_ledger_key(one), b = capacity::parse_ledger_key(other);
  return a && b && a->engine == b->engine && a->model == b->model;
}

// Does the model get more, or does another one stay for it?
bool is_better(const MemoryPlan& plan, const MemoryPlan& than) {
  if (plan.decision == Decision::no || than.decision == Decision::no) return plan.decision != Decision::no;
  if (plan.evicts.size() != than.evicts.size()) return plan.evicts.size() < than.evicts.size();
  return plan.slots * plan.context > than.slots * than.context;
}

}  // namespace

bool serialize_loads(bool macos, std::string_view setting) {
  return macos ? setting != "off" : setting == "on";
}

Seat::~Seat() {
  if (const auto admission = admission_.lock()) admission->release(key_);
}

void Seat::loaded(Bytes granted) {
  const auto admission = admission_.lock();
  if (!admission) return;
  const auto found = admission->residents_.find(key_);
  if (found == admission->residents_.end()) return;
  auto& resident = found->second;
  resident.loaded = true;
  resident.loaded_at = admission->parts_.clock.now();
  resident.untouched = 0;
  admission->broker_.measure(key_, 0, granted);
  admission->changed();
}

void Seat::observed(Bytes bytes) {
  if (const auto admission = admission_.lock()) admission->broker_.measure(key_, bytes);
}

void Seat::trimmed(Bytes cache) {
  const auto admission = admission_.lock();
  if (!admission) return;
  const auto found = admission->residents_.find(key_);
  if (found == admission->residents_.end()) return;
  auto& resident = found->second;
  resident.trimming = false;
  const Bytes before = resident.bytes.cache;
  resident.untrimmable = cache >= before;
  if (!resident.untrimmable) {
    const auto entry = admission->broker_.ledger().find(key_);
    const Bytes granted = entry == admission->broker_.ledger().end() ? 0 : entry->second.granted;
    resident.bytes.cache = cache;
    admission->broker_.shrink(key_, granted - std::min(granted, before - cache));
  }
  admission->changed();
}

Admission::Admission(Parts parts)
    : parts_(std::move(parts)),
      broker_([this] {
        const auto machine = parts_.machine();
        return capacity::BrokerSettings{.pools = machine.pools, .total_ram = machine.total_ram};
      }()),
      changed_(parts_.loop),
      timer_(parts_.timers->make()) {}

void Admission::hold(std::string reason) {
  held_ = std::move(reason);
  changed();
}

void Admission::unload_idle() {
  for (auto& [key, resident] : residents_) {
    // One that made way has only requests that wait for its next load.
    const bool unused = resident.gives_way || resident.holder.idle_ms() >= kIdlePause.count();
    if (!resident.loaded || resident.stopping || resident.holder.busy() || !unused) continue;
    resident.stopping = true;
    log_info("unloading an idle model: memory is short", {{"model", resident.holder.name}});
    resident.holder.unload();
  }
}

void Admission::release(const std::string& key) {
  residents_.erase(key);
  if (key == measuring_) measuring_.clear();
  if (loan_ && key == loan_->key) loan_.reset();
  broker_.release(key);
  changed();
}

MachineState Admission::state_for(const std::string& key) const {
  return state_on(parts_.machine(), key);
}

MachineState Admission::state_on(const Machine& machine, const std::string& key) const {
  return state_on(machine, broker_.committed_other(key),
                  [&key](const std::string& other) { return other == key; });
}

MachineState Admission::state_without_model(const std::string& key) const {
  const auto parsed = capacity::parse_ledger_key(key);
  if (!parsed) return state_for(key);
  return state_on(parts_.machine(), broker_.committed_by_other_models(parsed->engine, parsed->model),
                  [&key](const std::string& other) { return same_model(other, key); });
}

MachineState Admission::state_on(const Machine& machine, Bytes committed_other, const Own& own) const {
  MachineState state;
  state.pools = machine.pools;
  state.total_ram = machine.total_ram;
  state.broker = broker_.view();
  state.committed_other = committed_other;
  Bytes promised = 0;  // to loads that have not touched it yet
  Bytes in_place = 0;  // what the load would come in the place of
  for (const auto& [name, resident] : residents_) {
    if (own(name)) {
      if (resident.loaded) in_place += charged(name) + lent_to(name);
      continue;
    }
    promised += resident.untouched;
    // An extra worker is easier to do without than a model.
    state.residents.push_back({.key = name,
                               .bytes = charged(name) + lent_to(name),  // ends with it
                               .hits_last_minute = is_extra(name) ? -1 : resident.holder.hits_last_minute(),
                               .last_used_ms = -resident.holder.idle_ms(),
                               .busy = !resident.loaded || resident.holder.busy(),
                               .draining = resident.gives_way});
  }
  const Bytes free = machine.free_ram + std::min(in_place, machine.total_ram);
  state.free_ram = free > promised ? free - promised : 0;
  return state;
}

// One of several loaded workers of its model, and not the first.
bool Admission::is_extra(const std::string& key) const {
  return std::ranges::any_of(residents_, [&](const auto& other) {
    return other.second.loaded && other.first < key && same_model(other.first, key);
  });
}

std::vector<Admission::Reservation> Admission::reservations() const {
  std::vector<Reservation> out;
  for (const auto& [key, resident] : residents_) {
    const auto entry = broker_.ledger().find(key);
    out.push_back({key, resident.bytes, charged(key),
                   entry == broker_.ledger().end() ? 0 : entry->second.measured_peak});
  }
  if (!measuring_.empty()) out.push_back({measuring_, {.compute = kMeasuringBytes}, charged(measuring_), 0});
  if (loan_) {
    const Bytes lent = charged(loan_->key);
    out.push_back({.key = loan_->key, .bytes = {.compute = lent}, .charged = lent, .lent = true});
  }
  return out;
}

boost::asio::awaitable<std::unique_ptr<Seat>> Admission::enter_to_measure(std::string key) {
  const auto self = shared_from_this();
  while (!measuring_.empty()) {
    if (!co_await changed_.wait()) co_return nullptr;
  }
  measuring_ = "dry-run:" + key;
  broker_.record(measuring_, kMeasuringBytes);
  co_return std::make_unique<Seat>(weak_from_this(), measuring_);
}

std::unique_ptr<Seat> Admission::borrow(const std::string& key, Bytes bytes,
                                        std::function<void()> give_back) {
  const auto name = capacity::lent_key(key);
  if (loan_ || !queue_.empty() || !broker_.reserve(name, bytes, key)) return nullptr;
  loan_ = {.owner = key, .key = name, .give_back = std::move(give_back)};
  return std::make_unique<Seat>(weak_from_this(), name);
}

Bytes Admission::lent_to(const std::string& key) const {
  return loan_ && loan_->owner == key ? charged(loan_->key) : 0;
}

// Asks for it once. True: it is about to come back.
bool Admission::waits_for_loan() {
  if (!loan_) return false;
  if (!loan_->asked_back_at) {
    loan_->asked_back_at = parts_.clock.now();
    const auto give_back = loan_->give_back;  // the loan itself may be gone when this returns
    give_back();
  }
  if (!loan_) return false;
  const auto give_up_at = *loan_->asked_back_at + kLeastResidency;
  if (parts_.clock.now() >= give_up_at) return false;
  wake_at(give_up_at);
  return true;
}

Bytes Admission::charged(const std::string& key) const {
  const auto entry = broker_.ledger().find(key);
  return entry == broker_.ledger().end() ? 0 : entry->second.charged();
}

bool Admission::loads() const {
  return std::ranges::any_of(residents_, [](const auto& entry) { return !entry.second.loaded; });
}

// Something loads at this moment, or has not given its memory back yet.
bool Admission::load_in_flux() const {
  return std::ranges::any_of(residents_,
                             [](const auto& entry) { return !entry.second.loaded || entry.second.stopping; });
}

// --- the order

bool Admission::starves(const Entry& entry) const {
  return lane_of(entry) != Lane::batch && parts_.clock.now() - entry.since >= kLongWait;
}

// Somebody may wait for the model itself, without a request.
Lane Admission::lane_of(const Entry& entry) const {
  if (is_spare(entry)) return Lane::batch;
  return entry.request->holder.lane().value_or(Lane::interactive);
}

std::int64_t Admission::ahead_of(const Entry& entry) const {
  const auto rank = [this](const Entry& e) { return std::tuple(!starves(e), lane_of(e), e.since, e.number); };
  const auto mine = rank(entry);
  return std::ranges::count_if(queue_, [&](const Entry& other) { return rank(other) < mine; });
}

// Has the engine had its time, or did the other wait long enough?
bool Admission::may_be_asked(const Resident& resident, const Entry& entry) const {
  if (!resident.loaded) return false;
  if (starves(entry)) return true;
  const auto lane = lane_of(entry);
  if (const auto work = resident.holder.lane()) {
    if (*work < lane) return false;
  } else if (lane != Lane::interactive && resident.holder.idle_ms() < kIdlePause.count()) {
    return false;  // between two requests of a busy client
  }
  const auto load_time = resident.loaded_at - resident.admitted_at;
  const auto residency = std::max<MonotonicTime::duration>(load_time, kLeastResidency);
  return parts_.clock.now() - resident.loaded_at >= residency;
}

void Admission::wake_at(MonotonicTime when) {
  if (wakes_at_ && *wakes_at_ <= when) return;
  wakes_at_ = when;
  timer_->arm(when, [this] {
    wakes_at_.reset();
    changed();
  });
}

// One look at the first of the queue. `plan` is set when it is granted or denied.
Admission::Turn Admission::try_front(Entry& entry, std::optional<MemoryPlan>& plan, std::string& reason) {
  const Request& request = *entry.request;
  if (!held_.empty()) {
    // Nobody makes way for a load that may not be made.
    restore_those_who_gave_way();
    if (is_spare(entry)) return Turn::denied;
    if (parts_.clock.now() - entry.since >= kLongWait) {  // whatever its lane
      plan.emplace().denial = capacity::deny_generically();
      plan->denial->error.message = fmt::format(
          "This machine has been short of memory for {} s, so no model is loaded. End other programs or "
          "models, or try again later.",
          kLongWait / Millis(1'000));
      return Turn::denied;
    }
    wake_at(entry.since + kLongWait);
    reason = held_;
    return Turn::wait;
  }
  // Two seats under one key: the first to go would take the other's memory out of the books.
  if (residents_.contains(request.holder.key)) {
    reason = fmt::format("waiting for the last process of {} to end", request.holder.name);
    return Turn::wait;
  }
  if (parts_.one_load_at_a_time && loads()) {
    reason = "waiting for another load";
    return Turn::wait;
  }
  const auto machine = parts_.machine();
  broker_.set_pools(machine.pools, machine.total_ram);
  auto state = state_on(machine, request.holder.key);
  plan = request.plan(state);
  const bool lacks = plan->decision != Decision::fits || !plan->evicts.empty();
  // Measuring comes last: nobody is stopped, cut short or refused for what it holds.
  if (lacks && loan_) {
    if (waits_for_loan()) {
      reason = "waiting for a model's measurement to end";
      return Turn::wait;
    }
    state = state_on(parts_.machine(), request.holder.key);
    plan = request.plan(state);
  }
  if (plan->decision == Decision::smaller && load_in_flux()) {
    // What loads now counts twice for a moment: as promised and as no longer free.
    reason = "waiting for another load";
    return Turn::wait;
  }
  const auto decide_at = entry.since + kLeastResidency;
  if (!measuring_.empty() && parts_.clock.now() < decide_at &&
      (plan->decision != Decision::fits || !plan->evicts.empty())) {
    // It holds little and not for long; nobody is stopped or cut short for it.
    wake_at(decide_at);
    reason = "waiting for a model to be measured";
    return Turn::wait;
  }
  if (is_spare(entry) && (plan->decision != Decision::fits || !plan->evicts.empty())) return Turn::denied;
  if (trim_caches(request, state, *plan)) {
    reason = "waiting for memory of computed prompts";
    return Turn::wait;
  }
  if (plan->decision != Decision::no && plan->evicts.empty()) {
    const Bytes bytes = plan->reservation();
    if (plan->unchecked) {
      broker_.record(request.holder.key, bytes);
      return Turn::granted;
    }
    auto reserved = broker_.reserve(request.holder.key, bytes, request.holder.name);
    if (reserved) return Turn::granted;
    plan->denial = std::move(reserved).error();
    return Turn::denied;
  }

  // Who would have to go, if nobody were busy?
  std::vector<std::string> needed = plan->evicts;
  if (plan->decision == Decision::no) {
    state.residents = without_work(std::move(state.residents));
    const auto then = request.plan(state);
    if (then.decision == Decision::no) return Turn::denied;
    needed = then.evicts;
    if (needed.empty()) {
      // Only what loads at this moment, or has not given its memory back yet, stands in the way.
      if (!load_in_flux()) return Turn::denied;
      restore_those_who_gave_way();
      reason = "waiting for another load";
      return Turn::wait;
    }
  }
  // Another load was first before, and may have asked others.
  for (auto& [key, resident] : residents_) {
    if (std::ranges::find(needed, key) == needed.end()) restore(resident);
  }
  for (const auto& key : needed) {
    const auto found = residents_.find(key);
    if (found == residents_.end()) continue;
    reason = fmt::format("waiting for {} to {}", found->second.holder.name,
                         make_way(entry, found->second) ? "be unloaded" : "finish");
  }
  return Turn::wait;
}

Holder::Cache Admission::cache_of(const Resident& resident) {
  const bool has = resident.loaded && !resident.stopping && !resident.untrimmable && resident.holder.cache &&
                   resident.holder.trim;
  return has ? resident.holder.cache() : Holder::Cache{};
}

// Computed prompts go before models and windows do (spec 40 section 11.9.5). Half of every cache is asked for
// as long as the plan would be a better one without them; this is called again when one was given. True:
// something is on its way.
bool Admission::trim_caches(const Request& request, MachineState state, const MemoryPlan& plan) {
  if (plan.decision == Decision::fits) return false;
  Bytes reserved = 0, held = 0;
  std::vector<Resident*> givers;
  for (auto& [key, resident] : residents_) {
    const auto cache = key == request.holder.key ? Holder::Cache{} : cache_of(resident);
    if (cache.reserved == 0) continue;
    givers.push_back(&resident);
    reserved += cache.reserved;
    held += std::min(cache.held, cache.reserved);
    for (auto& other : state.residents) {
      if (other.key == key) other.bytes -= std::min(other.bytes, cache.reserved);
    }
  }
  state.committed_other -= std::min(state.committed_other, reserved);
  state.broker.committed -= std::min(state.broker.committed, reserved);
  if (state.free_ram) *state.free_ram += held;
  if (givers.empty() || !is_better(request.plan(state), plan)) return false;
  for (Resident* giver : givers) {
    if (std::exchange(giver->trimming, true)) continue;
    log_info("a cache of computed prompts is made smaller for another model",
             {{"model", giver->holder.name}, {"for", request.holder.name}});
    giver->holder.trim();
  }
  return true;
}

// The engines as if none were busy, those first that are easiest to have: who was asked already stays the
// one, then who has nothing to do, then who works for nobody who waits for it.
std::vector<capacity::Resident> Admission::without_work(std::vector<capacity::Resident> residents) const {
  for (auto& resident : residents) {
    const auto work = residents_.at(resident.key).holder.lane();
    if (resident.draining)
      resident.hits_last_minute = -1;
    else if (work)
      resident.hits_last_minute += *work == Lane::interactive ? 2 * kManyHits : kManyHits;
    resident.busy = resident.draining = false;
  }
  return residents;
}

// Asks the engine to make way if it may be asked. True: it is being unloaded.
bool Admission::make_way(const Entry& entry, Resident& resident) {
  if (resident.stopping) return true;
  if (!may_be_asked(resident, entry)) {
    // Within its time only an engine that nobody uses any more makes way.
    const bool unused =
        resident.loaded && !resident.holder.busy() && resident.holder.idle_ms() >= kIdlePause.count();
    if (!unused) {
      restore(resident);  // more urgent work came to it
      wake_at(parts_.clock.now() + kIdlePause);
      return false;
    }
  }
  if (!std::exchange(resident.gives_way, true)) resident.holder.give_way(true);
  if (resident.holder.busy()) return false;
  resident.stopping = true;
  log_info("unloading a model to make room",
           {{"model", resident.holder.name}, {"for", entry.request->holder.name}});
  resident.holder.unload();
  return true;
}

void Admission::restore(Resident& resident) {
  if (resident.stopping || !std::exchange(resident.gives_way, false)) return;
  resident.holder.give_way(false);
}

void Admission::restore_those_who_gave_way() {
  for (auto& [key, resident] : residents_) restore(resident);
}

boost::asio::awaitable<EngineResult<Admission::Admitted>> Admission::enter(Request request) {
  const auto self = shared_from_this();
  if (queue_.size() >= kMostWaitingModels) {
    co_return std::unexpected(make_error(
        "engine-busy", fmt::format("{} loads wait for memory already, which is the limit. Try again later.",
                                   kMostWaitingModels)));
  }
  const auto entry = queue_.insert(
      queue_.end(), Entry{&request, request.since.value_or(parts_.clock.now()), ++last_number_, {}});
  struct Leaving {  // also when the waiting coroutine is destroyed
    Admission& admission;
    std::list<Entry>::iterator entry;
    ~Leaving() {
      const bool first = entry->number == admission.first_;
      admission.queue_.erase(entry);
      if (first) admission.restore_those_who_gave_way();
      admission.changed();
    }
  };
  const Leaving leaving{*this, entry};
  const auto cancelled = [] {
    return std::unexpected(make_error("cancelled", "Waiting for memory was given up."));
  };
  while (true) {
    if (!request.wanted()) co_return cancelled();
    std::string reason = "waiting for the loads before it";
    const auto ahead = ahead_of(*entry);
    if (ahead == 0) {
      std::optional<MemoryPlan> plan;
      first_ = entry->number;
      switch (try_front(*entry, plan, reason)) {
        case Turn::granted: {
          auto& resident = residents_[request.holder.key];
          resident = {.holder = request.holder,
                      .admitted_at = parts_.clock.now(),
                      .bytes = plan->bytes,
                      .untouched = plan->reservation()};
          co_return Admitted{std::move(*plan), std::make_unique<Seat>(weak_from_this(), request.holder.key)};
        }
        case Turn::denied: {
          const auto denial = plan && plan->denial ? *plan->denial : capacity::deny_generically();
          log_warn("capacity broker denied " + request.holder.key,
                   {{"reason", capacity::denial_record(denial)}});
          auto error = make_error("capacity-denied", denial.error.message, denial.error.param);
          co_return std::unexpected(std::move(error));
        }
        case Turn::wait:
          break;
      }
    }
    // By then it may go before others.
    if (parts_.clock.now() - entry->since < kLongWait) wake_at(entry->since + kLongWait);
    const Waiting waiting{ahead, reason};
    const auto told = fmt::format("{} {}", waiting.ahead, waiting.reason);
    if (entry->told != told) {
      entry->told = told;
      request.notice(waiting);
    }
    if (!co_await changed_.wait()) co_return cancelled();
  }
}

}  // namespace gezel::engine
