// scheduler/scheduler.h
//
// Continuous batching over the slots of one context, one stream of KV cells per slot (layout S of spec 40
// section 11.0).
//
// A step is at most two calls that never share tokens (section 11.12): first the pending tokens of every
// decoding run, in ascending slot order, sampled and emitted at once; then one chunk of one waiting prompt,
// sized so that the decoding runs keep their pace. A conversation that continues finds its cells in its slot
// and computes only what is new; a prompt whose head was computed elsewhere gets it from the prefix cache.
//
// Everything here happens on the decode thread, except request_abort().
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "costmodel/cost_model.h"
#include "kvcache/slot_choice.h"
#include "llama/llama.h"
#include "prompt/request.h"
#include "sampling/sampler.h"
#include "scheduler/decoder.h"
#include "scheduler/draft_model.h"
#include "scheduler/prefix_cache.h"
#include "scheduler/steering.h"
#include "speculation/drafter.h"

namespace gezel::scheduler {

// What the scheduler needs of a vocabulary.
struct Vocabulary {
  std::function<std::string_view(Token)> piece;  // bytes of a token; "" for control tokens
  std::function<bool(Token)> is_end;             // ends a generation
};

struct Options {
  int slots = 1;
  std::int64_t context_per_slot = 0;  // tokens
  std::int64_t batch_tokens = 2048;
  int sliding_window = 0;    // tokens; 0: full attention
  bool recurrent = false;    // memory that cannot be cut at any token
  bool tiles_of_64 = false;  // flash attention on a CPU
  double target_itl_ms = 115;
  costmodel::CostModel costs;    // what is known of the times of steps before the first one
  bool reuse = true;             // false: every prompt is computed whole (diagnoses)
  bool verify = false;           // what was cached is compared with a cold run (diagnoses)
  bool speculation = true;       // drafts are checked where it pays
  std::int64_t max_outputs = 1;  // rows with logits in one call; at least `slots`
};

struct RunSpec {
  RunId id = 0;
  std::vector<Token> prompt;               // not empty, shorter than the context
  std::optional<std::int64_t> max_tokens;  // unset: until the model stops or the window is full
  sampling::Sampler sampler;               // has accepted the prompt
  std::vector<std::string> stop;
  int top_logprobs = -1;               // < 0: none
  std::unique_ptr<Steering> steering;  // null: the model is free
  prompt::Lane lane = prompt::Lane::interactive;
  // For the prefix cache.
  std::vector<std::uint64_t> token_ends;  // bytes of the prompt's text that tokens 0..i make
  std::vector<kvcache::TextSpan> spans;   // of its messages in that text
  std::string session, parent_session;
  std::string tenant;  // shares nothing with others; "": with all that have none
  bool ephemeral = false;
  bool only_prompt = false;  // computed and kept; nothing is sampled
};

struct TokenLogprob {
  Token token = 0;
  float logprob = 0;
  std::vector<sampling::Candidate> top;
};

// What one run produced in one step.
struct Emission {
  RunId id = 0;
  std::string text;  // complete UTF-8 that no stop string can take back
  int tokens = 0;
  std::vector<TokenLogprob> logprobs;
};

struct RunResult {
  RunId id = 0;
  bool length = false;  // stopped by max_tokens or a full window, not by the model or a stop string
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  CachedTiers cached;                      // adds up to cached_tokens
  double prompt_ms = 0, predicted_ms = 0;  // slot to first token; first token to last
  // Guessed and checked; those that agreed are completion tokens like any other.
  std::uint64_t drafted_tokens = 0, accepted_tokens = 0;
  SteeringReport steering;
};

enum class RunError {
  cancelled,
  internal,       // the engine refused this run's rows: our bug
  constraint,     // its steering failed, and free text is not what was asked for
  engine_failed,  // the backend failed; the worker must end
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_emissions(std::vector<Emission> emissions) = 0;
  // The run has a slot; called once with done = the cached tokens, then after each chunk.
  virtual void on_prefill(RunId id, std::int64_t done, std::int64_t total) = 0;
  // The run's place among those waiting for a slot changed.
  virtual void on_queued(RunId id, std::int64_t ahead) = 0;
  // An idle slot's cells hold the tokens of this run, but for those at its end that were sampled and not
  // computed; nothing when the slot was given to a run.
  virtual void on_slot(int /*slot*/, std::span<const Token> /*tokens*/) {}
  virtual void on_done(const RunResult& result) = 0;
  // `detail` says more where there is more to say.
  virtual void on_failed(RunId id, RunError error, std::string_view detail) = 0;
};

struct Statistics {
  int slots = 0, sequences = 0, queued = 0;
  std::int64_t cells_used = 0;
  std::uint64_t decode_steps = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  std::uint64_t verified = 0, verify_failed = 0;  // prompts, see Options::verify
};

// What is known of a prompt before it has a slot.
struct Forecast {
  std::int64_t cached = 0;  // tokens that it need not compute
  std::optional<kvcache::PrefixBreak> prefix_break;
};

class Scheduler {
 public:
  // `cache`: null without one; then only slots give back what they hold. `draft_model`: null without one.
  Scheduler(Options options, Decoder& decoder, Vocabulary vocabulary, const Clock& clock, Sink& sink,
            PrefixCache* cache = nullptr, DraftModel* draft_model = nullptr);
  ~Scheduler();

  void submit(RunSpec spec);
  // Ends a run before the next step. Its fed cells stay in the slot for whoever continues there. Unknown ids:
  // nothing.
  void cancel(RunId id);
  // A paused run keeps its slot and is left out of decode calls.
  void pause(RunId id, bool paused);

  // Is there anything a step would do?
  bool runnable() const;
  void step();
  // When a step is due although nothing is runnable: somebody has waited for the disk for long enough.
  std::optional<MonotonicTime> wake_at() const;
  Forecast forecast(const RunSpec& spec) const;
  // The disk has done something, or wake_at() has come.
  void poke();
  // The last call: what runs computed is kept, on disk as far as `until` allows.
  void freeze(MonotonicTime until);
  // What only this session uses is forgotten. What runs of it compute from now on is not kept.
  kvcache::Tree::Dropped drop_session(const std::string& session);
  // Idle slots whose content is to be forgotten.
  void clear_idle(std::span<const int> slots);

  Statistics statistics() const;
  const costmodel::CostModel& costs() const { return costs_; }
  // Time of recent decode steps relative to what Options::costs promised; 0: unknown.
  double pace() const { return pace_; }
  // The backend failed: every run got its error and no further step is possible.
  bool poisoned() const { return poisoned_; }

  // From any thread: if this run's prompt is being computed right now, stop that call early. Follow with
  // cancel().
  void request_abort(RunId id);
  const std::atomic<bool>* abort_flag() const { return &abort_; }
  std::uint64_t decode_steps() const {
    return decode_steps_.load(std::memory_order_relaxed);
  }  // from any thread

 private:
  struct Run;
  struct Slot {
    std::vector<Token> tokens;  // what its cells hold; valid while no run is in it
    Run* run = nullptr;
    std::uint64_t last_used = 0;
    std::string session;         // of its last run
    std::string tenant;          // whose its tokens are
    MonotonicTime kept_until{};  // see kvcache::SlotState
  };

  void assign_slots();
  bool try_assign(Run& run, MonotonicTime now);
  std::vector<kvcache::SlotState> slot_states(const RunSpec& spec, std::span<const Token> keys,
                                              MonotonicTime now) const;
  std::uint32_t reusable(const Slot& slot, int index, std::span<const Token> prompt) const;
  void occupy(Run& run, int index, std::uint32_t keep, const kvcache::Resume* offer, MonotonicTime now);
  void preempt_for(const Run& waiting, MonotonicTime now);
  void leave_to_family(const std::string& session, MonotonicTime now);
  Millis predicted_time(const Run& run) const;
  CachedPrompt cached_prompt(const RunSpec& spec) const;
  std::vector<Run*> waiting_runs(MonotonicTime now) const;
  struct Stream;
  void decode_streams();
  bool decode_rows_of(const std::vector<Run*>& runs);
  speculation::Draft draft_for(Run& run, std::size_t streams, std::int64_t depth, std::int64_t room);
  speculation::Draft ask_draft_model(Run& run, const speculation::Drafter::Question& question,
                                     std::int64_t depth);
  bool too_busy_to_draft(std::size_t streams, std::int64_t depth) const;
  void follow_with_draft_model();
  // Removes what was fed of a draft and not said. False: it did not work.
  bool take_back(const Stream& stream);
  void prefill_one();
  Run* next_prompt();
  bool verify(const Run& run);
  enum class Verdict { goes_on, stop, length, broken, off_course };
  Verdict advance(const Stream& stream, double ratio, int runs, std::vector<Emission>& emissions);
  // Samples the run's next token from a row of the last call, and adds those that must follow it.
  Verdict take_token(Run& run, int row, Emission& emission);
  void flush(Run& run, Verdict verdict, Emission& emission);
  // Nothing when the run's steering failed.
  std::optional<sampling::Sampled> sample(Run& run, std::span<const float> logits);
  // Makes a token part of the run and of what is emitted.
  Verdict append(Run& run, Token token, Emission& emission);
  void conclude(Run& run, Verdict verdict);
  void release(Run& run);
  void fail_run(Run& run, RunError error, std::string_view detail = {});
  void poison();
  void report_queue(MonotonicTime now);
  void note_pace(int streams, std::int64_t depth, double ms);
  prompt::Lane lane_of(const Run& run) const;
  bool before(const Run& a, const Run& b, MonotonicTime now) const;
  Run* find(RunId id) const;

  Options options_;
  Decoder& decoder_;
  Vocabulary vocabulary_;
  const Clock& clock_;
  Sink& sink_;
  PrefixCache* cache_;
  DraftModel* draft_model_;
  costmodel::CostModel costs_;
  double pace_ = 0;
  speculation::StepRatio step_ratio_;
  speculation::SharedNgrams shared_ngrams_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Run>> runs_;  // in order of arrival
  std::vector<llama::Row> rows_;            // of the call being built, reused
  std::uint64_t use_counter_ = 0, arrivals_ = 0;
  MonotonicTime last_whole_prompt_{};
  MonotonicTime assigned_at_{};  // slots were, the last time
  bool poisoned_ = false;
  bool moved_ = false;       // an image, since the last call of the engine
  bool move_waits_ = false;  // somebody waits only for the next one to be allowed
  std::atomic<std::uint64_t> decode_steps_{0};
  std::uint64_t prompt_tokens_ = 0, cached_tokens_ = 0, generated_tokens_ = 0;
  std::uint64_t verified_ = 0, verify_failed_ = 0;

  // The abort flag is armed only while a prompt is computed: a decode call must never be cut short.
  std::mutex abort_mutex_;
  RunId prefilling_ = 0;
  std::atomic<bool> abort_{false};
};

}  // namespace gezel::scheduler
