// protocol/messages.h
//
// The bodies of the frames as types, and their JSON. Every parse_* accepts any bytes and answers with a
// precise error (kind corrupt, code `protocol_error`, the field's path in `param`); every encode_* returns a
// complete frame. What a field is called on the wire and how it is bounded stands in schema.h. Text that is
// no UTF-8 is encoded with U+FFFD.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "prompt/request.h"
#include "prompt/tuning.h"
#include "protocol/frame.h"
#include "protocol/measure.h"

namespace gezel::protocol {

struct Hello {  // both directions, first frame of each side
  int protocol = kProtocolVersion;
  std::string build;  // libllama build of the worker; the daemon sends its own version
};

// Tokens of one call of the compute graph: the worker computes with it, and plans of memory count with it.
inline constexpr int kMicroBatchTokens = 128;

// What the worker may keep of prompts that it computed (docs/prefix-cache.md).
struct CacheSettings {
  bool off = false;      // for diagnoses: every prompt is computed from its first token on
  Bytes host_bytes = 0;  // in memory, beside the slots; 0: nothing
  bool disk = true;      // in the cache folder
  Bytes disk_bytes = 0;  // 0: no limit here
  std::string identity;  // of the model's files; another one: other records
  std::string backend = "cpu";
  std::int64_t stop_ms = 0;  // how long a stop may take to write what is not on disk yet
  bool verify = false;       // for diagnoses: what was cached is compared with a cold run
};

// A smaller model that drafts for this one (spec 40 section 11.14); its files are among those of the load.
struct DraftLoad {
  std::string model_path;       // first file; "": none
  std::int64_t max_tokens = 0;  // of one draft; 0: no limit of its own
  bool required = false;        // the load fails where it cannot be used; else the model answers without it
};

struct Load {
  std::string model_path;          // first file
  std::vector<std::string> files;  // every file of the model, for the sandbox (includes model_path)
  std::string cache_folder;        // writable, may be empty
  int slots = 1;
  std::int64_t context_per_slot = 2048;  // tokens
  int threads = 1;
  std::optional<bool> flash_attention;             // unset: spec 35 section 2.6
  std::string kv_type = "f16";                     // or "q8_0", which needs flash attention
  std::vector<std::string> excluded_buffer_types;  // failed the self-test
  double target_itl_ms = 115;  // spec 40 section 11.12.3; 115 keeps the 99th percentile below 150
  bool speculation = true;     // drafts are checked where it pays
  bool sandbox = true;
  // Only find out what the load would occupy: the answer is a ready frame with `bytes`, and the worker ends.
  bool dry_run = false;
  std::string chat_template_override;  // "" = the file's own
  // Of the profiles that hold for this model (src/profiles).
  prompt::WritingStyle style;
  prompt::Tuning tuning;
  std::vector<prompt::NamedTuning> named_tunings;
  std::string tuning_profile;  // for requests that name none; "": nobody chose one
  // Of calibration, made with the settings above: what the cost model begins with.
  std::vector<KnownStep> known_steps;
  CacheSettings cache;
  DraftLoad draft;
};

struct Ready {
  int slots = 0;
  std::int64_t context_per_slot = 0;
  bool flash_attention = false;
  std::string kv_type;  // "f16"
  // host: what the process needs beside them. repack: weights in a layout made for this processor.
  Bytes weights_bytes = 0, repack_bytes = 0, kv_bytes = 0, compute_bytes = 0, host_bytes = 0;
  std::string chat_template;          // "default:<name>" or ""
  bool supports_reasoning = false;    // the template knows a reasoning marker or enable_thinking
  bool supports_tools = false;        // the template prints tools
  std::vector<std::string> backends;  // "CPU", with the features in use
  std::string sandbox;                // "full", or what is missing
  bool drafts = false;                // a draft model is loaded too, and counted above
  std::string draft_trouble;          // why the one that was named is not used
};

struct Phase {          // while loading
  std::string phase;    // "loading_model"
  double progress = 0;  // 0..1
};

struct Generate {
  std::uint64_t id = 0;
  prompt::GenerateRequest request;
  // The window that the model could be loaded with now, if that is longer than the loaded one. A request that
  // needs more than the loaded one and not more than this fails, and is sent again when it is there.
  std::int64_t window_possible = 0;
};

// Where a prompt left the closest sequence that was computed before.
struct PrefixBreak {
  std::int64_t matched = 0;                // tokens that both begin with
  std::int64_t previous = 0;               // tokens of the earlier sequence
  std::optional<std::int64_t> at_message;  // number of the message in which they part; unset: in none
  std::string before_text, now_text,
      then_text;  // where text was asked for: what both have, and how each goes on
};

struct Started {
  std::uint64_t id = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0;
  bool reasoning_open = false;
  std::vector<std::string> warnings;
  bool splits_reasoning = false;  // the template, or the style of the load, knows a marker of reasoning
  std::vector<std::string> call_spellings;  // "strong:S1": what the request's tool grammar produces
  std::string tuning_profile;               // whose values were used; "": the model's as they are
  std::optional<PrefixBreak> prefix_break;  // without text
};

inline constexpr int kMaxTopLogprobs = 64;
struct TokenLogprob {
  std::string bytes;  // raw; may be part of a character (hex in JSON)
  float logprob = 0;
  std::vector<TokenLogprob> top;  // at most kMaxTopLogprobs; these have no `top` of their own
};

struct StepRun {
  std::uint64_t id = 0;
  std::string text;  // complete UTF-8; may be empty while a stop string or character is held back
  int tokens = 0;    // sampled since the last frame
  std::vector<TokenLogprob> logprobs;
};
struct Step {  // all live runs of one scheduler step
  std::vector<StepRun> runs;
};

struct Progress {
  std::optional<std::uint64_t> id;
  std::string stage;  // load | queued | prefill
  std::int64_t ahead = 0, done = 0, total = 0;
  std::uint64_t decode_steps = 0;  // calls of llama_decode so far: alive but stuck is seen here
};

// From where the cached tokens of a prompt came; together they are those of the usage.
struct CachedTokens {
  std::int64_t slot = 0, host = 0, disk = 0;
  std::int64_t coalesced = 0;  // another request computed them while this one waited for it
};

struct Done {
  std::uint64_t id = 0;
  std::string reason;  // stop | length
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  double prompt_ms = 0, predicted_ms = 0;
  std::int64_t prompt_n = 0, predicted_n = 0, draft_n = 0, draft_n_accepted = 0;
  std::int64_t reasoning_tokens = 0;
  bool repetition = false;  // stopped by the guard against endless repetition
  CachedTokens cached;
  std::optional<PrefixBreak> prefix_break;
};

// The kind of a failure after which the worker ends: what the request set off cannot be stopped.
inline constexpr std::string_view kOverrunKind = "overrun";

struct Failed {
  std::optional<std::uint64_t> id;  // absent: the load failed
  std::string kind;  // row of spec 30 section 2.4, for example "context_overflow", or kOverrunKind
  std::string code;  // its code, for example "context-overflow"
  std::string message;
  std::string param;
  std::string retry = "never";  // never | same_engine | other_engine | after
  // context-overflow: the prompt, the loaded window, and the window that the request needs.
  std::int64_t prompt_tokens = 0, context_tokens = 0, needed_tokens = 0;
};

// The prefix cache as it stands, and what it did since the load. Tokens where nothing else is said.
struct CacheStats {
  std::string mode;  // full | window | hybrid | recurrent | none; "": not known yet
  Bytes host_bytes = 0, host_budget = 0;
  Bytes disk_bytes = 0;
  std::int64_t nodes = 0, host_nodes = 0, disk_nodes = 0;
  CachedTokens cached;
  std::uint64_t misses = 0;  // prompts that began cold
  std::uint64_t imports = 0, failed_imports = 0, exports = 0;
  std::uint64_t written = 0, loaded = 0;  // records
  std::uint64_t corrupt = 0, disk_errors = 0;
  std::uint64_t evicted = 0;  // nodes
  // Of prompts that were checked against a cold run: all, and those that went on differently.
  std::uint64_t verified = 0, verify_failed = 0;
};

struct Stats {
  int slots = 0, sequences = 0;  // sequences: runs that are queued, prefilling or decoding
  int queued = 0;
  int threads = 0;              // it computes with; 0: it does not say
  std::int64_t cells_used = 0;  // KV cells held by live runs and sticky runs
  Bytes kv_bytes = 0;
  int fds = 0;
  Bytes resident_bytes = 0;
  std::uint64_t decode_steps = 0, micro_batches = 0;
  std::uint64_t prompt_tokens_total = 0, cached_tokens_total = 0, generated_tokens_total = 0;
  // Past answers that stand in prompts as they were sampled; those whose bytes were known and could not be
  // used.
  std::uint64_t replayed_total = 0, replay_missed_total = 0;
  double decode_tps = 0,
         prefill_tps = 0;  // by the cost model: one stream at depth 0 / 512 tokens at depth 0; 0 = unknown
  double pace = 0;         // time of recent steps relative to what Load::known_steps promised; 0 = unknown
  CacheStats cache;
};

// Frame `cache`: look at the prefix cache or change it. Answered by a CacheReply, in a stats frame that has
// an id.
//   list     its nodes, parents first
//   inspect  one node; its text where `text` is set
//   explain  where `request` would leave what is cached, with texts, and how many tokens it would reuse
//   warm     computes the prompt of `request` in the background lane and keeps it; answered when it is done
//   pin, unpin, drop   `node`, or all that `session` uses; drop: from every tier
//   flush    writes what is not on disk yet; everything stays where it is
//   shrink   memory is short: half the host tier, for ten minutes
//   trim     another model needs the memory: half of all that the cache has is given back for good
struct CacheQuery {
  std::uint64_t id = 0;
  std::string op;
  std::uint64_t node = 0;  // 0: none
  std::string session;
  std::optional<prompt::GenerateRequest> request;
  bool text = false;
};

struct CacheNode {
  std::uint64_t id = 0, parent = 0;  // parent 0: none
  std::int64_t start = 0, end = 0;   // tokens
  std::string kind;                  // system | user | tail
  std::uint64_t hits = 0, pins = 0;
  Bytes host_bytes = 0, disk_bytes = 0;
  std::optional<int> slot;       // that holds it
  std::int64_t last_use_ms = 0;  // since the epoch
};

struct CacheReply {
  std::uint64_t id = 0;
  std::string code, message;       // of an error; "": done
  std::vector<CacheNode> nodes;    // list, inspect; at most kMaxCacheNodes, the last used
  std::int64_t tokens = 0;         // explain: it would reuse; warm: of the prompt
  std::int64_t cached_tokens = 0;  // warm: of those, not computed
  // pin, unpin, drop: nodes; flush: records written; list: all nodes; trim: bytes that the cache keeps
  std::int64_t count = 0;
  std::string text;                         // inspect
  std::optional<PrefixBreak> prefix_break;  // explain
};
inline constexpr std::size_t kMaxCacheNodes = 10'000;

struct TokensQuery {  // tokenize `text`, or count the tokens of a rendered request
  std::uint64_t id = 0;
  std::optional<std::string> text;
  std::optional<prompt::GenerateRequest> request;
};
struct TokensReply {
  std::uint64_t id = 0;
  std::vector<std::int32_t> tokens;
  std::int64_t count = 0;
};

struct Control {
  std::uint64_t id = 0;        // of the request; 0 for what concerns the whole worker
  std::string action;          // pause | resume | end_reasoning | set_threads
  std::optional<int> threads;  // set_threads: compute with so many from the next step on
};

struct Cancel {
  std::uint64_t id = 0;
};

std::string encode(FrameType hello_direction, const Hello&);  // FrameType::hello or hello_reply
std::string encode(const Load&);
std::string encode(const Ready&);
std::string encode(const Phase&);
std::string encode(const Generate&);
std::string encode(const Started&);
std::string encode(const Step&);
std::string encode(const Progress&);
std::string encode(const Done&);
std::string encode(const Failed&);
std::string encode(const Stats&);
std::string encode(const TokensQuery&);
std::string encode(const TokensReply&);
std::string encode(const Control&);
std::string encode(const Measure&);
std::string encode(const Measured&);
std::string encode(const CacheQuery&);
std::string encode(const CacheReply&);
std::string encode_cancel(std::uint64_t id);
std::string encode_empty(FrameType type);  // ping, pong, stats, drain: body "{}"

Result<Hello> parse_hello(std::string_view body);
Result<Load> parse_load(std::string_view body);
Result<Ready> parse_ready(std::string_view body);
Result<Phase> parse_phase(std::string_view body);
Result<Generate> parse_generate(std::string_view body);
Result<Started> parse_started(std::string_view body);
Result<Step> parse_step(std::string_view body);
Result<Progress> parse_progress(std::string_view body);
Result<Done> parse_done(std::string_view body);
Result<Failed> parse_failed(std::string_view body);
Result<Stats> parse_stats(std::string_view body);
Result<TokensQuery> parse_tokens_query(std::string_view body);
Result<TokensReply> parse_tokens_reply(std::string_view body);
Result<Control> parse_control(std::string_view body);
Result<Measure> parse_measure(std::string_view body);
Result<Measured> parse_measured(std::string_view body);
Result<CacheQuery> parse_cache_query(std::string_view body);
Result<CacheReply> parse_cache_reply(std::string_view body);
// Is this body of a stats frame a CacheReply?
bool is_cache_reply(std::string_view body);
Result<std::uint64_t> parse_cancel(std::string_view body);

// The top-level `id` of a body that a parse_* refused, so that the refusal reaches whoever asked. Reads no
// further than the id, which encode() writes first; nothing where none can be made out.
std::optional<std::uint64_t> peek_id(std::string_view body);

}  // namespace gezel::protocol
