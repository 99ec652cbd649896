// What decoding runs do in a step: one call with their pending tokens and the drafts that go with them, then
// sampling.
//
// A draft is what the run may say next (speculation/drafter.h). Its tokens are fed behind the pending ones
// with logits for each, and the run is sampled place by place with its own sampler and constraint, exactly as
// without a draft: as long as what was sampled is what had been fed, the next place's logits are already
// there. The cells of what was fed and not said are removed. Memory that cannot be cut (recurrent layers) is
// put back to where the call began instead; what agreed is fed once more with the next call, without
// sampling.
#include <algorithm>
#include <span>

#include "scheduler/run.h"
#include "scheduler/scheduler.h"

namespace gezel::scheduler {
namespace {

constexpr int kMaxAttempts = 256;  // tokens that a constraint may take back at one place
// Of the target between tokens; a step whose streams take longer has no room for guesses.
constexpr double kBusyShare = 0.5;
// Of the same target: for a piece of what a draft model has not seen.
constexpr double kFollowShare = 0.4;
constexpr std::int64_t kFirstFollowed = 64, kMostFollowed = 512;  // tokens of such a piece
// Of a guessed token to one of the model, before one was guessed.
constexpr double kFirstGuessCost = 0.2;

}  // namespace

// One run's part of a call.
struct Scheduler::Stream {
  Run* run = nullptr;
  std::int64_t begin = 0, end = 0;  // its keys from here to there are in the call
  int last_row = 0;                 // of those; the rows of the draft follow
  speculation::Draft draft;
};

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

// A run that is alone keeps nobody waiting: there only what pays for itself counts, however slow the model
// is.
bool Scheduler::too_busy_to_draft(std::size_t streams, std::int64_t depth) const {
  return streams > 1 &&
         costs_.decode_ms(static_cast<int>(streams), depth) > kBusyShare * options_.target_itl_ms;
}

// What is worth checking behind the run's pending tokens. `room`: rows with logits that the call still has.
speculation::Draft Scheduler::draft_for(Run& run, std::size_t streams, std::int64_t depth,
                                        std::int64_t room) {
  if (!options_.speculation || run.size() - run.fed > 1 || too_busy_to_draft(streams, depth)) return {};
  // Nobody could tell whether it pays.
  if (!costs_.knows_decode()) return {};
  // The image to go back to is the only one that the staging buffer holds.
  if (options_.recurrent && (streams > 1 || cache_ == nullptr || !cache_->can_go_back())) return {};
  std::int64_t most = std::min(room, options_.context_per_slot - run.size());
  if (run.spec.max_tokens) most = std::min(most, *run.spec.max_tokens - run.sampled - 1);
  if (most <= 0) return {};
  std::vector<Token> continuation;
  if (cache_ != nullptr && run.drafter.wants(speculation::Source::tree))
    continuation =
        cache_->continuation(run.prompt.domain, run.keys, static_cast<std::size_t>(most), run.place);
  speculation::Drafter::Question question;
  question.tokens = run.keys;
  question.continuation = continuation;
  question.most = static_cast<std::size_t>(most);
  question.others = static_cast<int>(streams) - 1;
  question.replays = options_.recurrent;
  auto draft = run.drafter.next(question, step_ratio_, &shared_ngrams_, tenant_seed(run.spec.tenant));
  if (draft.tokens.empty()) draft = ask_draft_model(run, question, depth);
  if (!draft.tokens.empty() && options_.recurrent && !cache_->remember(run.slot)) return {};
  return draft;
}

speculation::Draft Scheduler::ask_draft_model(Run& run, const speculation::Drafter::Question& question,
                                              std::int64_t depth) {
  speculation::Draft draft{.source = speculation::Source::model, .tokens = {}};
  if (draft_model_ == nullptr || !run.drafter.wants(draft.source)) return draft;
  if (draft_model_->behind(run.slot, run.spec.id, run.keys) > DraftModel::kNearlyThere) return draft;
  auto mine = question;
  if (draft_model_->most() > 0) mine.most = std::min(mine.most, draft_model_->most());
  const double alone = costs_.decode_ms(1, depth);
  const double known = draft_model_->guess_ms();
  const double per_token = known > 0 && alone > 0 ? known / alone : kFirstGuessCost;
  draft.tokens = draft_model_->guess(run.slot, run.spec.id, run.keys,
                                     run.drafter.depth_for_model(mine, step_ratio_, per_token));
  return draft;
}

// What the draft model has not seen of a run, as much as fits between two tokens. Prompts of the model itself
// go first: somebody waits for them.
void Scheduler::follow_with_draft_model() {
  if (draft_model_ == nullptr || !draft_model_->works()) return;
  std::size_t streams = 0;
  std::int64_t depth = 0;
  for (const auto& run : runs_) {
    if (!run->decoding()) return;
    if (run->paused) continue;
    ++streams;
    depth = std::max(depth, run->fed);
  }
  if (streams == 0 || too_busy_to_draft(streams, depth)) return;
  const double ms = draft_model_->follow_ms();
  const double room = kFollowShare * options_.target_itl_ms;
  const auto limit = ms > 0 ? std::clamp<std::int64_t>(static_cast<std::int64_t>(room / ms), 1, kMostFollowed)
                            : kFirstFollowed;
  for (const auto& run : runs_) {
    if (run->paused || !run->drafter.wants(speculation::Source::model)) continue;
    const std::int64_t behind = draft_model_->behind(run->slot, run->spec.id, run->keys);
    if (behind <= DraftModel::kNearlyThere || behind > options_.context_per_slot) continue;
    return draft_model_->catch_up(run->slot, run->spec.id, run->keys, limit);
  }
}

// One call with the pending tokens of `runs`, which are in slot order, and their drafts. False: the engine
// refused it, nothing has changed.
bool Scheduler::decode_rows_of(const std::vector<Run*>& runs) {
  const MonotonicTime began = clock_.now();
  rows_.clear();
  std::vector<Stream> streams;
  std::int64_t depth = 0;
  for (const Run* run : runs) depth = std::max(depth, run->fed);
  std::int64_t room = options_.max_outputs - static_cast<std::int64_t>(runs.size());
  // Text that a constraint forces may be longer than one call takes: the rest follows with the next step.
  const std::int64_t share =
      std::max<std::int64_t>(1, options_.batch_tokens / static_cast<std::int64_t>(runs.size()));
  for (Run* run : runs) {
    Stream stream{.run = run,
                  .begin = run->fed,
                  .end = std::min(run->size(), run->fed + share),
                  .last_row = 0,
                  .draft = {}};
    const auto feed = [&](Token token, std::int64_t at, bool logits) {
      rows_.push_back({token, static_cast<std::int32_t>(at), run->slot, logits});
    };
    for (std::int64_t at = run->fed; at < stream.end; ++at) {
      feed(run->keys[static_cast<std::size_t>(at)], at, at + 1 == run->size());
    }
    stream.last_row = static_cast<int>(rows_.size()) - 1;
    if (stream.end == run->size())
      stream.draft = draft_for(*run, runs.size(), depth, std::min(room, share - 1));
    for (std::size_t i = 0; i < stream.draft.tokens.size(); ++i) {
      feed(stream.draft.tokens[i], stream.end + static_cast<std::int64_t>(i), true);
    }
    room -= static_cast<std::int64_t>(stream.draft.tokens.size());
    streams.push_back(std::move(stream));
  }
  const MonotonicTime guessed = clock_.now();
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
  const MonotonicTime computed = clock_.now();
  const double took = std::chrono::duration<double, std::milli>(computed - guessed).count();
  double ratio = 1;  // of what the step took to what it would have taken without drafts
  if (rows_.size() == runs.size()) {
    costs_.observe_decode(static_cast<int>(rows_.size()), depth, took);
    note_pace(static_cast<int>(rows_.size()), depth, took);
  } else if (const double plain = costs_.decode_ms(static_cast<int>(runs.size()), depth); plain > 0) {
    ratio = std::chrono::duration<double, std::milli>(computed - began).count() / plain;
    if (runs.size() == 1) step_ratio_.observe(rows_.size(), took, plain);
  }
  std::vector<Emission> emissions;
  std::vector<std::pair<Run*, Verdict>> ended;
  for (Stream& stream : streams) {
    stream.run->fed = stream.end;
    if (stream.run->fed < stream.run->size()) continue;
    const Verdict verdict = advance(stream, ratio, static_cast<int>(runs.size()), emissions);
    if (verdict != Verdict::goes_on) ended.emplace_back(stream.run, verdict);
  }
  sink_.on_emissions(std::move(emissions));
  for (const auto& [run, verdict] : ended) conclude(*run, verdict);
  return true;
}

// Samples what the call's logits allow: one token, and one more for every token of the draft that agreed.
Scheduler::Verdict Scheduler::advance(const Stream& stream, double ratio, int runs,
                                      std::vector<Emission>& emissions) {
  Run& run = *stream.run;
  const std::span<const Token> draft = stream.draft.tokens;
  Emission emission{.id = run.spec.id, .text = {}, .tokens = 0, .logprobs = {}};
  Verdict verdict = Verdict::goes_on;
  std::size_t agreed = 0;
  const std::int64_t before = run.size();
  while (verdict == Verdict::goes_on) {
    const std::int64_t from = run.size();
    verdict = take_token(run, stream.last_row + static_cast<int>(agreed), emission);
    // One token was sampled; a constraint may have added more.
    std::int64_t at = from;
    while (at < run.size() && agreed < draft.size() &&
           run.keys[static_cast<std::size_t>(at)] == draft[agreed]) {
      ++at;
      ++agreed;
    }
    if (at < run.size() || from == run.size()) break;  // what comes next is not what was fed
  }
  run.fed += static_cast<std::int64_t>(agreed);
  if (agreed < draft.size()) {
    if (!take_back(stream)) verdict = Verdict::broken;
    if (options_.recurrent) ratio += step_ratio_.of(agreed + 2) - 1;
  }
  if (!draft.empty()) {
    // With others in the call each of them lost what the draft cost, and only this run gained.
    run.drafter.checked(stream.draft, agreed, ratio * runs - (runs - 1));
  }
  run.drafter.passed(static_cast<std::size_t>(run.size() - before));
  flush(run, verdict, emission);
  if (emission.tokens > 0) emissions.push_back(std::move(emission));
  return verdict;
}

bool Scheduler::take_back(const Stream& stream) {
  Run& run = *stream.run;
  if (!options_.recurrent) return decoder_.remove(run.slot, static_cast<std::int32_t>(run.fed), -1);
  run.fed = stream.begin;
  return cache_->go_back(run.slot, static_cast<std::uint32_t>(run.fed));
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

Scheduler::Verdict Scheduler::take_token(Run& run, int row, Emission& emission) {
  const auto sampled = sample(run, decoder_.logits(row));
  if (!sampled) return Verdict::off_course;
  if (sampled->token < 0) return Verdict::broken;  // no token has a probability: the model computed nonsense
  if (run.sampled == 0) run.first_token = clock_.now();

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
  return verdict;
}

// At a run's end: whatever was held back can no longer become a character or a stop string.
void Scheduler::flush(Run& run, Verdict verdict, Emission& emission) {
  if ((verdict != Verdict::stop && verdict != Verdict::length) || run.stop_string) return;
  auto out = run.stops.feed(run.assembler.finish());
  emission.text += out.text;
  if (!out.matched) emission.text += run.stops.finish();
}

}  // namespace gezel::scheduler
