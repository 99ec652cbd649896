// The step loop. Which slot a run gets is in slots.cc.
#include "scheduler/scheduler.h"

#include <algorithm>
#include <span>

#include "costmodel/chunk_plan.h"
#include "scheduler/run.h"

namespace gezel::scheduler {
namespace {

constexpr Millis kStarving{60'000};          // a request that waited this long goes first
constexpr Millis kWholePromptInterval{300};  // between two short prompts that run at once
constexpr int kMaxAttempts = 256;            // tokens that a constraint may take back at one place

double milliseconds(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

Scheduler::Scheduler(Options options, Decoder& decoder, Vocabulary vocabulary, const Clock& clock, Sink& sink,
                     PrefixCache* cache)
    : options_(options),
      decoder_(decoder),
      vocabulary_(std::move(vocabulary)),
      clock_(clock),
      sink_(sink),
      cache_(cache),
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
  if (!poisoned_) assign_slots();
}

void Scheduler::decode_streams() {
  std::vector<Run*> streams;
  for (const Slot& slot : slots_) {
    if (slot.run != nullptr && slot.run->decoding() && !slot.run->paused) streams.push_back(slot.run);
  }
  if (streams.empty() || decode_rows_of(streams) || poisoned_) return;
  // The batch was refused as a whole, which should be impossible. One call per run finds the offender; the
  // others go on.
  for (Run* run : streams) {
    if (poisoned_) return;  // every run is gone
    if (!decode_rows_of({run}) && !poisoned_) fail_run(*run, RunError::internal);
  }
}

// One call with the pending tokens of `runs`, which are in slot order. False: the engine refused it, nothing
// has changed.
bool Scheduler::decode_rows_of(const std::vector<Run*>& runs) {
  rows_.clear();
  std::vector<int> last_row;
  std::vector<std::int64_t> ends;
  std::int64_t depth = 0;
  // Text that a constraint forces may be longer than one call takes: the rest follows with the next step.
  const std::int64_t share =
      std::max<std::int64_t>(1, options_.batch_tokens / static_cast<std::int64_t>(runs.size()));
  for (Run* run : runs) {
    const std::int64_t end = std::min(run->size(), run->fed + share);
    for (std::int64_t at = run->fed; at < end; ++at) {
      rows_.push_back(
          {run->keys[static_cast<std::size_t>(at)], static_cast<std::int32_t>(at), run->slot, false});
    }
    rows_.back().logits = end == run->size();
    last_row.push_back(static_cast<int>(rows_.size()) - 1);
    ends.push_back(end);
    depth = std::max(depth, run->fed);
  }
  const MonotonicTime began = clock_.now();
  const llama::DecodeCode code = decoder_.decode(rows_);
  decode_steps_.fetch_add(1, std::memory_order_relaxed);
  if (code == llama::DecodeCode::failed) {
    poison();
    return false;
  }
  if (code == llama::DecodeCode::aborted) {
    // Rows may be fed, but their logits are gone: back to where the books stand, and again with the next
    // step.
    for (Run* run : runs) {
      if (!decoder_.remove(run->slot, static_cast<std::int32_t>(run->fed), -1))
        fail_run(*run, RunError::internal);
    }
    return true;
  }
  if (code != llama::DecodeCode::ok) return false;
  std::vector<Emission> emissions;
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i]->fed = ends[i];
  costs_.observe_decode(static_cast<int>(rows_.size()), depth, milliseconds(began, clock_.now()));
  std::vector<std::pair<Run*, Verdict>> ended;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i]->fed < runs[i]->size()) continue;
    const Verdict verdict = take_token(*runs[i], last_row[i], emissions);
    if (verdict != Verdict::goes_on) ended.emplace_back(runs[i], verdict);
  }
  sink_.on_emissions(std::move(emissions));
  for (const auto& [run, verdict] : ended) conclude(*run, verdict);
  return true;
}

void Scheduler::prefill_one() {
  Run* run = next_prompt();
  if (run == nullptr) return;

  costmodel::ChunkQuestion question;
  question.prompt_depth = run->fed;
  question.remaining = run->prompt_tokens - run->fed;
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
  const bool completes = end == run->prompt_tokens;
  rows_.clear();
  for (std::int64_t at = run->fed; at < end; ++at) {
    rows_.push_back(
        {run->keys[static_cast<std::size_t>(at)], static_cast<std::int32_t>(at), run->slot, false});
  }
  rows_.back().logits = completes && !run->spec.only_prompt;

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
      run->fed = std::clamp<std::int64_t>(decoder_.position_max(run->slot) + 1, 0, run->prompt_tokens - 1);
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
  sink_.on_prefill(run->spec.id, run->fed, run->prompt_tokens);
  if (!completes) return;
  if (run->spec.only_prompt) {
    run->first_token = clock_.now();
    return conclude(*run, Verdict::stop);
  }
  std::vector<Emission> emissions;
  const Verdict verdict = take_token(*run, static_cast<int>(rows_.size()) - 1, emissions);
  sink_.on_emissions(std::move(emissions));
  if (verdict != Verdict::goes_on) conclude(*run, verdict);
}

std::optional<sampling::Sampled> Scheduler::sample(Run& run, std::span<const float> logits) {
  Steering* const steering = run.spec.steering.get();
  if (steering == nullptr) return run.spec.sampler.sample(logits, {}, run.spec.top_logprobs);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto mask = steering->mask();
    if (!mask) {
      run.trouble = mask.error().message;
      return std::nullopt;
    }
    const sampling::Sampled sampled = run.spec.sampler.sample(logits, *mask, run.spec.top_logprobs);
    if (sampled.token < 0 || vocabulary_.is_end(sampled.token)) return sampled;
    const auto accepted = steering->accept(sampled.token);
    if (!accepted) {
      run.trouble = accepted.error().message;
      return std::nullopt;
    }
    if (*accepted) return sampled;
  }
  run.trouble = "the constraint refused every token that it had allowed";
  return std::nullopt;
}

Scheduler::Verdict Scheduler::append(Run& run, Token token, Emission& emission) {
  run.spec.sampler.accept(token);
  run.keys.push_back(token);
  ++run.sampled;
  ++emission.tokens;
  ++generated_tokens_;
  auto out = run.stops.feed(run.assembler.feed(vocabulary_.piece(token)));
  emission.text += out.text;
  if (out.matched) {
    run.stop_string = true;
    return Verdict::stop;
  }
  if ((run.spec.max_tokens && run.sampled >= *run.spec.max_tokens) || run.size() > options_.context_per_slot)
    return Verdict::length;
  return Verdict::goes_on;
}

Scheduler::Verdict Scheduler::take_token(Run& run, int row, std::vector<Emission>& emissions) {
  const auto sampled = sample(run, decoder_.logits(row));
  if (!sampled) return Verdict::off_course;
  if (sampled->token < 0) return Verdict::broken;  // no token has a probability: the model computed nonsense
  if (run.sampled == 0) run.first_token = clock_.now();

  Emission emission{.id = run.spec.id, .text = {}, .tokens = 0, .logprobs = {}};
  Verdict verdict = Verdict::stop;
  if (vocabulary_.is_end(sampled->token)) {
    ++run.sampled;
    ++emission.tokens;
    ++generated_tokens_;
  } else {
    if (run.spec.top_logprobs >= 0)
      emission.logprobs.push_back({sampled->token, sampled->logprob, sampled->top});
    verdict = append(run, sampled->token, emission);
    if (Steering* const steering = run.spec.steering.get()) {
      for (const Token token : steering->forced()) {
        if (verdict != Verdict::goes_on) break;
        verdict = append(run, token, emission);
      }
      if (verdict == Verdict::goes_on && steering->complete()) verdict = Verdict::stop;
      if (verdict == Verdict::goes_on) steering->prepare();
    }
  }
  if (verdict != Verdict::goes_on && !run.stop_string) {
    // Whatever was held back can no longer become a character or a stop string.
    auto out = run.stops.feed(run.assembler.finish());
    emission.text += out.text;
    if (!out.matched) emission.text += run.stops.finish();
  }
  emissions.push_back(std::move(emission));
  return verdict;
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
}

void Scheduler::clear_idle(std::span<const int> slots) {
  for (const int index : slots) {
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.run != nullptr) continue;
    decoder_.remove(index, -1, -1);
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

// Order among waiting prompts: who starves, then the lane, then the longest reused head (its cells are warm),
// then arrival.
bool Scheduler::before(const Run& a, const Run& b, MonotonicTime now) const {
  // Batch work waits until there is no other, however long that takes.
  const auto starves = [now](const Run& run) {
    return run.spec.lane != prompt::Lane::batch && now - run.arrived >= kStarving;
  };
  const bool a_starves = starves(a), b_starves = starves(b);
  if (a_starves != b_starves) return a_starves;
  if (!a_starves && a.spec.lane != b.spec.lane) return a.spec.lane < b.spec.lane;
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
  return out;
}

}  // namespace gezel::scheduler
