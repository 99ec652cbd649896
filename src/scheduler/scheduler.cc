// The step loop and prompts. Which slot a run gets is in slots.cc, what decoding runs do in decoding.cc.
#include "scheduler/scheduler.h"

#include <algorithm>
#include <span>

#include "costmodel/chunk_plan.h"
#include "scheduler/run.h"

namespace gezel::scheduler {
namespace {

constexpr Millis kStarving{60'000};          // a request that waited this long goes first
constexpr Millis kWholePromptInterval{300};  // between two short prompts that run at once
constexpr double kPaceWeight = 0.05;         // spec 35 section 2.4

double milliseconds(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

Scheduler::Scheduler(Options options, Decoder& decoder, Vocabulary vocabulary, const Clock& clock, Sink& sink,
                     PrefixCache* cache, DraftModel* draft_model)
    : options_(options),
      decoder_(decoder),
      vocabulary_(std::move(vocabulary)),
      clock_(clock),
      sink_(sink),
      cache_(cache),
      draft_model_(options.speculation ? draft_model : nullptr),
      costs_(options.costs),
      slots_(static_cast<std::size_t>(options.slots)) {}

Scheduler::~Scheduler() = default;

Scheduler::Run* Scheduler::find(RunId id) const {
  for (const auto& run : runs_) {
    if (run->spec.id == id) return run.get();
  }
  return nullptr;
}

void Scheduler::submit(RunSpec spec) {
  if (poisoned_) {
    sink_.on_failed(spec.id, RunError::engine_failed, {});
    return;
  }
  runs_.push_back(std::make_unique<Run>(std::move(spec)));
  runs_.back()->prompt = cached_prompt(runs_.back()->spec);
  if (cache_ != nullptr) cache_->meet(runs_.back()->prompt.domain);
  runs_.back()->arrived = clock_.now();
  runs_.back()->order = ++arrivals_;
  leave_to_family(runs_.back()->spec.parent_session, runs_.back()->arrived);
  if (runs_.back()->spec.steering) runs_.back()->spec.steering->prepare();
  assign_slots();
}

void Scheduler::cancel(RunId id) {
  if (Run* run = find(id)) {
    fail_run(*run, RunError::cancelled);
    assign_slots();
  }
}

void Scheduler::pause(RunId id, bool paused) {
  if (Run* run = find(id)) run->paused = paused;
}

bool Scheduler::runnable() const {
  if (poisoned_) return false;
  return move_waits_ || std::any_of(runs_.begin(), runs_.end(), [](const auto& run) {
           return run->prefilling() || (run->decoding() && !run->paused);
         });
}

void Scheduler::step() {
  moved_ = false;
  decode_streams();
  if (!poisoned_) prefill_one();
  if (!poisoned_) follow_with_draft_model();
  if (!poisoned_) assign_slots();
}

void Scheduler::note_pace(int streams, std::int64_t depth, double ms) {
  if (!options_.costs.knows_decode()) return;
  const double promised = options_.costs.decode_ms(streams, depth);
  if (!(promised > 0)) return;
  const double ratio = std::clamp(ms / promised, 0.1, 10.0);  // one stalled step says nothing
  pace_ = pace_ == 0 ? ratio : pace_ + kPaceWeight * (ratio - pace_);
}

void Scheduler::prefill_one() {
  Run* run = next_prompt();
  if (run == nullptr) return;

  costmodel::ChunkQuestion question;
  question.prompt_depth = run->fed;
  question.remaining = run->target - run->fed;
  question.tiles_of_64 = options_.tiles_of_64;
  question.batch_tokens = options_.batch_tokens;
  question.target_ms = options_.target_itl_ms;
  question.whole_prompt_allowed = clock_.now() - last_whole_prompt_ >= kWholePromptInterval;
  question.prompts_waiting = 0;
  for (const auto& other : runs_) {
    if (other->decoding() && !other->paused) {
      ++question.streams;
      question.stream_depth = std::max(question.stream_depth, other->fed);
    } else if (!other->decoding()) {
      ++question.prompts_waiting;
    }
  }
  const costmodel::ChunkAnswer chunk = costmodel::plan_chunk(question, costs_);
  if (chunk.whole_prompt) last_whole_prompt_ = clock_.now();

  std::int64_t end = run->fed + std::min(chunk.tokens, options_.batch_tokens);
  if (cache_ != nullptr) {
    if (const auto stop = cache_->next_stop(run->prompt); stop && *stop > run->fed)
      end = std::min<std::int64_t>(end, *stop);
  }
  const bool completes = end == run->target;
  // After a pre-emption the next token is known already.
  const bool samples = completes && run->size() == run->target && !run->spec.only_prompt;
  rows_.clear();
  for (std::int64_t at = run->fed; at < end; ++at) {
    rows_.push_back(
        {run->keys[static_cast<std::size_t>(at)], static_cast<std::int32_t>(at), run->slot, false});
  }
  rows_.back().logits = samples;

  {
    const std::lock_guard lock(abort_mutex_);
    prefilling_ = run->spec.id;
  }
  const MonotonicTime began = clock_.now();
  const llama::DecodeCode code = decoder_.decode(rows_);
  {
    const std::lock_guard lock(abort_mutex_);
    prefilling_ = 0;
    abort_.store(false);
  }
  decode_steps_.fetch_add(1, std::memory_order_relaxed);
  switch (code) {
    case llama::DecodeCode::ok:
      break;
    case llama::DecodeCode::aborted:
      // Completed micro-batches remain; the cancel that caused this follows. A run that was not meant goes on
      // from there.
      run->fed = std::clamp<std::int64_t>(decoder_.position_max(run->slot) + 1, 0, run->target - 1);
      if (!decoder_.remove(run->slot, static_cast<std::int32_t>(run->fed), -1)) {
        decoder_.remove(run->slot, -1, -1);
        run->fed = 0;
        if (cache_ != nullptr) cache_->dropped(run->slot);
      }
      return;
    case llama::DecodeCode::failed:
      poison();
      return;
    case llama::DecodeCode::no_space:
    case llama::DecodeCode::bad_batch:
      fail_run(*run, RunError::internal);
      return;
  }
  const double took = milliseconds(began, clock_.now());
  costs_.observe_prefill(end - run->fed, run->fed, took);
  if (cache_ != nullptr) {
    cache_->prefilled(static_cast<std::uint64_t>(end - run->fed), took / 1000);
    if (cache_->fed(run->prompt, run->slot, static_cast<std::uint32_t>(end), clock_.now())) moved_ = true;
  }
  run->fed = end;
  if (cache_ != nullptr && !completes) cache_->predict(run->prompt, predicted_time(*run), clock_.now());
  if (run->fed <= run->prompt_tokens) sink_.on_prefill(run->spec.id, run->fed, run->prompt_tokens);
  if (!completes) return;
  if (run->spec.only_prompt) {
    run->first_token = clock_.now();
    return conclude(*run, Verdict::stop);
  }
  if (!samples) return;
  if (options_.verify && run->cached > 0 && !verify(*run)) return fail_run(*run, RunError::internal);
  Emission emission{.id = run->spec.id, .text = {}, .tokens = 0, .logprobs = {}};
  const Verdict verdict = take_token(*run, static_cast<int>(rows_.size()) - 1, emission);
  flush(*run, verdict, emission);
  std::vector<Emission> emissions;
  if (emission.tokens > 0) emissions.push_back(std::move(emission));
  sink_.on_emissions(std::move(emissions));
  if (verdict != Verdict::goes_on) conclude(*run, verdict);
}

void Scheduler::conclude(Run& run, Verdict verdict) {
  if (verdict == Verdict::broken) {
    // With a constraint in force it is the constraint that left nothing to choose.
    return fail_run(run, run.spec.steering ? RunError::constraint : RunError::internal,
                    run.spec.steering ? "no token that the constraint allows has a probability" : "");
  }
  if (verdict == Verdict::off_course) return fail_run(run, RunError::constraint, run.trouble);
  RunResult result;
  result.id = run.spec.id;
  result.length = verdict == Verdict::length;
  result.prompt_tokens = run.prompt_tokens;
  result.cached_tokens = run.cached;
  result.cached = run.prompt.tiers;
  result.completion_tokens = run.sampled;
  result.prompt_ms = milliseconds(run.slot_granted, run.first_token);
  result.predicted_ms = milliseconds(run.first_token, clock_.now());
  result.drafted_tokens = run.drafter.counts().drafted;
  result.accepted_tokens = run.drafter.counts().accepted;
  if (run.spec.steering) result.steering = run.spec.steering->report();
  release(run);
  sink_.on_done(result);
}

void Scheduler::fail_run(Run& run, RunError error, std::string_view detail) {
  const RunId id = run.spec.id;
  const std::string why(detail);  // may belong to the run
  release(run);
  sink_.on_failed(id, error, why);
}

// Takes the run out; its fed cells stay in the slot as the sticky run.
void Scheduler::release(Run& run) {
  const int index = run.slot;
  const bool forgotten = run.prompt.forgotten;
  if (options_.speculation && !forgotten)
    shared_ngrams_.learn(tenant_seed(run.spec.tenant), run.keys, static_cast<std::size_t>(run.prompt_tokens));
  if (run.slot >= 0) {
    Slot& slot = slots_[static_cast<std::size_t>(run.slot)];
    sink_.on_slot(run.slot, run.keys);
    run.keys.resize(static_cast<std::size_t>(run.fed));
    if (cache_ != nullptr) cache_->finish(run.prompt, run.slot, run.keys, clock_.now());
    slot.tokens = std::move(run.keys);
    slot.run = nullptr;
    slot.last_used = ++use_counter_;
  } else if (cache_ != nullptr) {
    cache_->finish(run.prompt, -1, {}, clock_.now());
  }
  std::erase_if(runs_, [&](const auto& other) { return other.get() == &run; });
  if (forgotten && index >= 0) clear_idle(std::span(&index, 1));
}

kvcache::Tree::Dropped Scheduler::drop_session(const std::string& session) {
  if (cache_ == nullptr || session.empty()) return {};
  for (const auto& run : runs_) {
    if (run->spec.session == session) run->prompt.forgotten = true;
  }
  auto dropped = cache_->drop_session(session);
  clear_idle(dropped.slots);
  for (int index = 0; index < options_.slots; ++index) {
    if (slots_[static_cast<std::size_t>(index)].session == session) clear_idle(std::span(&index, 1));
  }
  return dropped;
}

void Scheduler::clear_idle(std::span<const int> slots) {
  for (const int index : slots) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.run != nullptr) continue;
    decoder_.remove(index, -1, -1);
    if (cache_ != nullptr) cache_->dropped(index);
    if (draft_model_ != nullptr) draft_model_->forget(index);
    slot.tokens.clear();
    sink_.on_slot(index, {});
  }
}

void Scheduler::poison() {
  poisoned_ = true;
  while (!runs_.empty()) fail_run(*runs_.front(), RunError::engine_failed);
}

void Scheduler::request_abort(RunId id) {
  const std::lock_guard lock(abort_mutex_);
  if (id != 0 && prefilling_ == id) abort_.store(true);
}

// Whoever waits for the head of a run's prompt waits for it as for its own: the run computes it in the best
// lane of them.
prompt::Lane Scheduler::lane_of(const Run& run) const {
  prompt::Lane lane = run.spec.lane;
  if (cache_ == nullptr || run.slot < 0) return lane;
  for (const RunId id : cache_->waiting_for(run.spec.id)) {
    if (const Run* waiting = find(id)) lane = std::min(lane, waiting->spec.lane);
  }
  return lane;
}

// Order among waiting prompts: who starves, then the lane, then who gave its slot away, then the longest
// reused head (its cells are warm), then arrival.
bool Scheduler::before(const Run& a, const Run& b, MonotonicTime now) const {
  // Batch work waits until there is no other, however long that takes.
  const auto starves = [now](const Run& run) {
    return run.spec.lane != prompt::Lane::batch && now - run.arrived >= kStarving;
  };
  const bool a_starves = starves(a), b_starves = starves(b);
  if (a_starves != b_starves) return a_starves;
  const prompt::Lane a_lane = lane_of(a), b_lane = lane_of(b);
  if (!a_starves && a_lane != b_lane) return a_lane < b_lane;
  if (!a_starves && a.preemptions != b.preemptions) return a.preemptions > b.preemptions;
  if (!a_starves && a.cached != b.cached) return a.cached > b.cached;
  return a.order < b.order;
}

Scheduler::Run* Scheduler::next_prompt() {
  Run* best = nullptr;
  const MonotonicTime now = clock_.now();
  for (const auto& run : runs_) {
    if (run->prefilling() && (best == nullptr || before(*run, *best, now))) best = run.get();
  }
  return best;
}

Statistics Scheduler::statistics() const {
  Statistics out;
  out.slots = options_.slots;
  out.sequences = static_cast<int>(runs_.size());
  for (const auto& run : runs_) {
    if (run->slot < 0) {
      ++out.queued;
    } else {
      out.cells_used += run->fed;
    }
  }
  for (const Slot& slot : slots_) {
    if (slot.run == nullptr) out.cells_used += static_cast<std::int64_t>(slot.tokens.size());
  }
  out.decode_steps = decode_steps_.load(std::memory_order_relaxed);
  out.prompt_tokens = prompt_tokens_;
  out.cached_tokens = cached_tokens_;
  out.generated_tokens = generated_tokens_;
  out.verified = verified_;
  out.verify_failed = verify_failed_;
  return out;
}

}  // namespace gezel::scheduler
