// engine/engine.h
//
// The one interface behind which every engine family stands (spec 30 section 2). Called on the event loop,
// awaited there, never throws across the boundary. Nothing above it knows which family answers.
#pragma once
#include <array>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "capacity/memory_plan.h"
#include "engine/cache.h"
#include "prompt/request.h"

namespace gezel::engine {

namespace asio = boost::asio;

enum class Retry { never, same_engine, other_engine, after };

// What a window was and could be, in tokens of one slot; 0: unknown, or none.
struct WindowNumbers {
  std::int64_t needed = 0;   // by the request
  std::int64_t granted = 0;  // to the loaded model
  std::int64_t native = 0;   // what the model was trained for
  std::int64_t limit = 0;    // the longest that may be had: the model's own, or what a person named
  std::int64_t largest = 0;  // of that: what fits now
  std::string binding;       // what stands in the way of more ("live-memory"); "": nothing
};

// An Error with what an engine knows beyond it. `error.code` is one of the stable words of spec 30
// section 2.4 with dashes
// ("engine-crashed"); `http_hint` is the status an HTTP answer should carry.
struct EngineError {
  Error error;
  Retry retry = Retry::never;
  int http_hint = 500;
  std::int64_t retry_after_ms = 0;  // with Retry::after
  std::string incident_id;          // set when a process died unexpectedly
  std::int64_t characters_delivered = 0;
  // context-overflow: both numbers, else 0.
  std::int64_t prompt_tokens = 0;
  std::int64_t context_tokens = 0;
  std::optional<WindowNumbers> window;  // of a request that wants a longer one than it can have
};
template <class T = void>
using EngineResult = std::expected<T, EngineError>;

// The error of a kind named in spec 30 section 2.4, with that row's HTTP status and retry advice.
EngineError make_error(std::string_view code, std::string message, std::string param = {});

struct TokenLogprob {
  std::string token;  // its text, U+FFFD where it is not UTF-8 on its own
  std::string bytes;  // its raw bytes
  float logprob = 0;
  std::vector<TokenLogprob> top;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;     // of the prompt: tokens whose KV was reused
  std::int64_t reasoning_tokens = 0;  // of the completion
  CachedTokens cached_from = {};
};

// Spec 30 section 12.9.3: what the engine spent on what.
struct Timings {
  std::int64_t cache_n = 0, prompt_n = 0, predicted_n = 0;
  double prompt_ms = 0, predicted_ms = 0;
  std::int64_t draft_n = 0, draft_n_accepted = 0;
};

enum class FinishReason { stop, length };

// Events of one generation, in order: progress* started (text_delta | progress)* (done | failed).
struct Started {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // forecast; Done has the exact figure
  bool reasoning_open = false;     // the prompt ends inside a reasoning block
  std::vector<std::string> warnings;
  // How this model writes, for whoever reads its text (turn/parser.h).
  std::string family;                       // of turn/family.h; "" = the universal forms
  bool splits_reasoning = false;            // its template knows a marker of reasoning
  std::vector<std::string> call_spellings;  // rows of the dialect catalogue that its tool grammar produces
  // Opener and closer beside those that every model is known by; both "" without them.
  std::string reasoning_open_marker, reasoning_close_marker;
  bool capture_pre_tool_prose = false;  // planning in front of a call counts as reasoning
  std::string tuning_profile;  // of prompt/tuning_profiles.h, that was used; "": the model's own values
  std::optional<PrefixBreak> prefix_break;  // without text
};
struct TextDelta {
  std::string text;  // complete UTF-8
  std::vector<TokenLogprob> logprobs;
};
struct Progress {
  enum class Stage { queued, load, prefill };
  Stage stage = Stage::queued;
  std::int64_t ahead = 0;            // queued: requests before this one; or loads, when `reason` is set
  std::int64_t done = 0, total = 0;  // prefill: tokens; load: per mille
  std::string reason;                // queued: what the model's load waits for; "" = a place in its engine
};
struct Done {
  FinishReason reason = FinishReason::stop;
  Usage usage;
  Timings timings;
  std::vector<std::string>
      warnings;             // for example that the engine went silent and the text so far is all there is
  bool repetition = false;  // ended because the same text came again and again
  std::optional<PrefixBreak> prefix_break;
};
struct Failed {
  EngineError error;
};
using Event = std::variant<Started, TextDelta, Progress, Done, Failed>;

// One running request. Destroying it cancels what still runs.
class Generation {
 public:
  virtual ~Generation() = default;
  // The next event; after Done or Failed, Failed{cancelled} for ever.
  virtual asio::awaitable<Event> next() = 0;
  virtual void cancel() = 0;
};

enum class State { stopped, starting, ready, stopping, exhausted };
std::string_view state_name(State state);

// What an engine has to do, by lane (prompt::Lane is the index).
struct LaneLoad {
  int running = 0, queued = 0;  // in a slot; in none yet, wherever they are
};
using LaneLoads = std::array<LaneLoad, 3>;

// One worker of a model that may have several (engine/replicas.h).
struct ReplicaStatus {
  int replica = 0;
  State state = State::stopped;
  std::int64_t pid = 0;
  Bytes bytes = 0;
  int slots = 0, slots_busy = 0;
  std::int64_t context = 0, queued = 0;
  int sessions = 0;  // conversations that are at home there
  bool draining = false;
};

// A snapshot for people and for /api/ps; costs nothing and never starts anything.
struct Status {
  State state = State::stopped;
  std::int64_t pid = 0;
  Bytes bytes = 0;  // weights + KV + compute buffers as the worker reported them
  int slots = 0, slots_busy = 0;
  std::int64_t context = 0;  // tokens per slot
  std::int64_t queued = 0;   // requests that are in no slot yet, wherever they are
  LaneLoads lanes = {};      // the same by lane
  std::int64_t idle_ms = 0;
  std::string waiting;       // for what a start waits: "waiting for Gemma 3 to finish, 2 ahead"; "" = nothing
  bool draining = false;     // it takes nothing new: it makes way for another model, or is loaded again
  bool below_floor = false;  // memory kept the window shorter than this machine usually grants
  std::string stale;  // why it is loaded again at its next idle moment: "window" | "files"; "": it is not
  std::optional<WallTime> unload_at;
  std::uint64_t generation = 0;  // +1 per spawn
  std::string chat_template;     // "default:<name>" when the file has none, else ""
  std::string profile;  // JSON object of what holds for the loaded model (src/profiles); "" = unknown
  bool flash_attention = false;
  std::string kv_type;
  std::string draft_model;   // the file of the one that drafts for it; "": none
  std::string draft_unused;  // why one that was named does not
  int threads = 0;  // it computes with, and its nice value above what it was started with: see Manners
  int nice = 0;
  double decode_tps = 0, prefill_tps = 0;  // live estimates, 0 = unknown
  // Of a model that may have several workers: each that is more than a name. Bytes, slots and queue above are
  // sums then, the window is the shortest, and the rest is of the first that is loaded.
  std::vector<ReplicaStatus> replicas;
};

// What a plan of a model's memory is asked for; unset: what the service would choose.
struct MemoryWish {
  std::optional<std::int64_t> context;  // tokens per slot
  std::optional<int> slots;
};

// What good-neighbour mode asks of engines (capacity/neighbour.h).
struct Manners {
  bool yielding = false;   // other programs want the processors
  bool pressured = false;  // memory is short
  bool operator==(const Manners&) const = default;
};

struct StopOutcome {
  bool was_running = false;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual Status status() const = 0;
  // Loads the model unless it is loaded; concurrent callers join the one start.
  virtual asio::awaitable<EngineResult<>> ensure_ready() = 0;
  // Accepts the request into the engine's queue, starting the engine if needed. The events tell the rest.
  virtual asio::awaitable<EngineResult<std::unique_ptr<Generation>>> generate(
      prompt::GenerateRequest request) = 0;
  virtual bool busy() const = 0;
  // What it was loaded from is another file now: it is loaded again, as soon as nobody is being answered.
  virtual void refresh() {}
  // Ends the process; running requests get `engine-evicted`.
  virtual asio::awaitable<StopOutcome> stop() = 0;
  // Worker statistics as JSON text (frame `stats`), or nothing when it does not run.
  virtual asio::awaitable<std::optional<std::string>> worker_stats() = 0;
  // What was measured of the loaded model's speed (spec 35), as JSON text; "": it is not loaded, or not
  // measured here.
  virtual std::string calibration() const { return {}; }
  // Measures the loaded model anew and at once, between requests. False: it is not loaded, or not measured
  // here.
  virtual bool calibrate() { return false; }
  // As last heard of; nothing when it does not run, or keeps no prompts that we know of.
  virtual std::optional<CacheUse> cache_use() const { return std::nullopt; }
  // Looks at what it keeps of prompts, or changes it. Never starts it. Errors: `model_not_loaded` (404),
  // `unsupported-feature` of an engine without a cache of ours, and what the engine says.
  virtual asio::awaitable<EngineResult<CacheReply>> cache(CacheQuery) {
    co_return std::unexpected(
        make_error("unsupported-feature", "This engine does not show what it keeps of prompts."));
  }
  // Steps back, or returns; holds until the next call, also for launches to come. An engine without a process
  // of ours has nothing to do.
  virtual void set_manners(Manners) {}
  // What the model would get now, and why. Starts nothing that stays.
  virtual asio::awaitable<EngineResult<capacity::MemoryPlan>> plan(MemoryWish wish) = 0;
};

}  // namespace gezel::engine
