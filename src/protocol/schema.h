// protocol/schema.h
//
// The fields of every message, one line each: name on the wire, member, limit. Names and grouping are those
// of spec 30 section 13.3. Adding a field is adding a line; messages_test.cc fails for a member without one.
//
// Elements of long lists have required members, so that a frame cannot describe many more bytes than it has.
#pragma once
#include "protocol/fields.h"
#include "protocol/messages.h"

namespace gezel::protocol {

inline constexpr std::int64_t kMaxSlots = 4096;
inline constexpr std::int64_t kMaxThreads = 4096;
inline constexpr std::int64_t kMaxPathBytes = 16 * 1024;
inline constexpr std::int64_t kMaxNameBytes = 4096;
inline constexpr std::int64_t kMaxShortList =
    4096;  // files, stop strings, backends, sequence breakers, warnings
inline constexpr std::int64_t kMaxTokenBytes = 64 * 1024;

inline constexpr std::array<std::string_view, 2> kDoneReasons = {"stop", "length"};
inline constexpr std::array<std::string_view, 3> kProgressStages = {"load", "queued", "prefill"};
inline constexpr std::array<std::string_view, 4> kRetries = {"never", "same_engine", "other_engine", "after"};
inline constexpr std::array<std::string_view, 4> kActions = {"pause", "resume", "end_reasoning",
                                                             "set_threads"};
inline constexpr std::array<std::string_view, 10> kCacheOps = {
    "list", "inspect", "explain", "warm", "pin", "unpin", "drop", "flush", "shrink", "trim"};
inline constexpr std::array<std::string_view, 3> kNodeKinds = {"system", "user", "tail"};

inline constexpr std::array<std::string_view, 2> kStepKinds = {"decode", "prefill"};
inline constexpr std::array<std::string_view, 5> kMeasureOutcomes = {"measured", "prepared", "interrupted",
                                                                     "refused", "released"};
inline constexpr std::int64_t kMaxMeasuredTokens = 1 << 20;

// ---- what a model is asked

// What a client decides is judged by `api` (api/chat.h), whose limits on lists must stay below those that
// hold here: kDefaultMaxItems elements a list. Numbers have none here but their type's, and texts none but
// the frame's size.

template <>
struct Names<prompt::Role> {
  static constexpr std::array<std::string_view, 5> values = {"system", "developer", "user", "assistant",
                                                             "tool"};
};
template <>
struct Names<prompt::ContentPart::Kind> {
  static constexpr std::array<std::string_view, 2> values = {"text", "image"};
};
template <>
struct Names<prompt::ToolChoice> {
  static constexpr std::array<std::string_view, 4> values = {"auto", "none", "required", "named"};
};
template <>
struct Names<prompt::ToolPolicy> {
  static constexpr std::array<std::string_view, 3> values = {"repair", "strict", "raw"};
};
template <>
struct Names<prompt::OutputFormat::Kind> {
  static constexpr std::array<std::string_view, 6> values = {"text",  "json_object", "json_schema",
                                                             "regex", "lark",        "gbnf"};
};
template <>
struct Names<prompt::Lane> {
  static constexpr std::array<std::string_view, 3> values = {"interactive", "background", "batch"};
};

void describe(auto& field, like<prompt::ToolCall> auto& call) {
  field("id", call.id);
  field.required("name", call.name);
  field.required("arguments", call.arguments);
}

void describe(auto& field, like<prompt::ContentPart> auto& part) {
  field.required("kind", part.kind);
  field.required("text", part.text);
}

void describe(auto& field, like<prompt::Sampled> auto& sampled) {
  field.required("text", sampled.text);
  field("reasoning_bytes", sampled.reasoning_bytes);
  field("began_in_reasoning", sampled.began_in_reasoning);
}

void describe(auto& field, like<prompt::Message> auto& message) {
  field.required("role", message.role);
  field.required("content", message.content);
  field("reasoning", message.reasoning);
  field("tool_calls", message.tool_calls);
  field("sampled", message.sampled);
  field("tool_call_id", message.tool_call_id);
  field("name", message.name);
}

void describe(auto& field, like<prompt::Tool> auto& tool) {
  field.required("name", tool.name);
  field.required("json", tool.json);
}

void describe(auto& field, like<prompt::OutputFormat> auto& format) {
  field.required("kind", format.kind);
  field("definition", format.definition);
}

void describe(auto& field, like<prompt::SamplingOptions> auto& sampling) {
  field("temperature", sampling.temperature);
  field("top_k", sampling.top_k);
  field("top_p", sampling.top_p);
  field("min_p", sampling.min_p);
  field("typical_p", sampling.typical_p);
  field("repeat_penalty", sampling.repeat_penalty);
  field("presence_penalty", sampling.presence_penalty);
  field("frequency_penalty", sampling.frequency_penalty);
  field("repeat_last_n", sampling.repeat_last_n);
  field("dry_multiplier", sampling.dry_multiplier);
  field("dry_base", sampling.dry_base);
  field("dry_allowed_length", sampling.dry_allowed_length);
  field("dry_penalty_last_n", sampling.dry_penalty_last_n);
  field("dry_sequence_breakers", sampling.dry_sequence_breakers);
  field("xtc_probability", sampling.xtc_probability);
  field("xtc_threshold", sampling.xtc_threshold);
  field("mirostat", sampling.mirostat);
  field("mirostat_tau", sampling.mirostat_tau);
  field("mirostat_eta", sampling.mirostat_eta);
  field("seed", sampling.seed);
  field("logit_bias", sampling.logit_bias);
  field("ignore_eos", sampling.ignore_eos);
}

void describe(auto& field, like<prompt::GenerateRequest> auto& request) {
  field("session_key", request.session_key);
  field("tenant", request.tenant);
  field("parent_session", request.parent_session);
  field("ephemeral", request.ephemeral);
  field("prefix_snippets", request.prefix_snippets);
  field("lane", request.lane);
  field.required("messages", request.messages);
  field("tools", request.tools);
  field("tool_choice", request.tool_choice);
  field("tool_name", request.tool_name);
  field("tool_policy", request.tool_policy);
  field("parallel_tool_calls", request.parallel_tool_calls);
  field("output_format", request.output_format);
  field("template_kwargs", request.template_kwargs);
  field("reasoning_effort", request.reasoning_effort);
  field("tuning_profile", request.tuning_profile, up_to(kMaxNameBytes));
  field("sampling", request.sampling);
  field("max_output_tokens", request.max_output_tokens);
  field("context", request.context, at_least(1));
  field("max_thinking_tokens", request.max_thinking_tokens);
  field("guards", request.guards);
  field("stop", request.stop);
  field("logprobs", request.logprobs);
  field("top_logprobs", request.top_logprobs, up_to(kMaxTopLogprobs));
}

// ---- how a model is used

void describe(auto& field, like<prompt::Behaviors> auto& behaviors) {
  for (const auto& row : prompt::kBehaviors) field(row.id, behaviors.*row.on);
}

void describe(auto& field, like<prompt::WritingStyle> auto& style) {
  field("dialect", style.dialect, up_to(kMaxNameBytes));
  field("family", style.family, up_to(kMaxNameBytes));
  field("reasoning_open", style.reasoning_open, up_to(kMaxNameBytes));
  field("reasoning_close", style.reasoning_close, up_to(kMaxNameBytes));
  field("behaviors", style.behaviors);
}

void describe(auto& field, like<prompt::PromptTags> auto& tags) {
  field("think", tags.think, up_to(kMaxNameBytes));
  field("no_think", tags.no_think, up_to(kMaxNameBytes));
}

void describe(auto& field, like<prompt::Tuning> auto& tuning) {
  field("sampling", tuning.sampling);
  field("sampling_when_thinking", tuning.sampling_when_thinking);
  field("template_kwargs", tuning.template_kwargs);
  field("max_tokens", tuning.max_tokens, at_least(1));
  field("thinking_budget", tuning.thinking_budget, at_least(1));
  field("tags", tuning.tags);
}

void describe(auto& field, like<prompt::NamedTuning> auto& named) {
  field.required("profile", named.profile, up_to(kMaxNameBytes));
  field.required("tuning", named.tuning);
}

// ---- daemon to worker

void describe(auto& field, like<Hello> auto& hello) {
  field.required("protocol", hello.protocol);
  field.required("build", hello.build, up_to(kMaxNameBytes));
}

void describe(auto& field, like<KnownStep> auto& step) {
  field.word("kind", step.kind, kStepKinds);
  field.required("tokens", step.tokens, range(1, kMaxMeasuredTokens));
  field.required("depth", step.depth, at_least(0));
  field.required("ms", step.ms, at_least(0));
}

void describe(auto& field, like<CacheSettings> auto& cache) {
  field("off", cache.off);
  field("host_bytes", cache.host_bytes);
  field("disk", cache.disk);
  field("disk_bytes", cache.disk_bytes);
  field("identity", cache.identity, up_to(kMaxNameBytes));
  field("backend", cache.backend, up_to(kMaxNameBytes));
  field("stop_ms", cache.stop_ms, at_least(0));
  field("verify", cache.verify);
}

void describe(auto& field, like<DraftLoad> auto& draft) {
  field("model_path", draft.model_path, up_to(kMaxPathBytes));
  field("max_tokens", draft.max_tokens, at_least(0));
  field("required", draft.required);
}

void describe(auto& field, like<Load> auto& load) {
  field.required("model_path", load.model_path, up_to(kMaxPathBytes));
  field.required("files", load.files, up_to(kMaxShortList));
  field("cache_folder", load.cache_folder, up_to(kMaxPathBytes));
  field.required("slots", load.slots, range(1, kMaxSlots));
  field.required("ctx_per_slot", load.context_per_slot, at_least(1));
  field.required("threads", load.threads, range(1, kMaxThreads));
  field("flash_attn", load.flash_attention);
  field("kv_type", load.kv_type, up_to(kMaxNameBytes));
  field("excluded_buffer_types", load.excluded_buffer_types, up_to(kMaxShortList));
  field("target_itl_ms", load.target_itl_ms, at_least(0));
  field("speculation", load.speculation);
  field("sandbox", load.sandbox);
  field("dry_run", load.dry_run);
  field("chat_template_override", load.chat_template_override);
  field("style", load.style);
  field("tuning", load.tuning);
  field("named_tunings", load.named_tunings, up_to(kMaxShortList));
  field("tuning_profile", load.tuning_profile, up_to(kMaxNameBytes));
  field("known_steps", load.known_steps, up_to(kMaxShortList));
  field("cache", load.cache);
  field("draft", load.draft);
}

void describe(auto& field, like<Generate> auto& generate) {
  field.required("id", generate.id);
  field.required("request", generate.request);
  field("window_possible", generate.window_possible, at_least(0));
}

void describe(auto& field, like<Cancel> auto& cancel) {
  field.required("id", cancel.id);
}

void describe(auto& field, like<TokensQuery> auto& query) {
  field.required("id", query.id);
  field("text", query.text);
  field("request", query.request);
}

void describe(auto& field, like<Control> auto& control) {
  field.required("id", control.id);
  field.word("action", control.action, kActions);
  field("threads", control.threads, range(1, kMaxThreads));
}

void describe(auto& field, like<Measure> auto& measure) {
  field.required("id", measure.id);
  field("release", measure.release);
  field.required("flash_attn", measure.flash_attention);
  field.required("kv_type", measure.kv_type, up_to(kMaxNameBytes));
  field.required("threads", measure.threads, range(1, kMaxThreads));
  field.required("streams", measure.streams, range(1, kMaxSlots));
  field.required("context", measure.context, range(1, kMaxMeasuredTokens));
  field.word("kind", measure.kind, kStepKinds);
  field.required("tokens", measure.tokens, range(1, kMaxMeasuredTokens));
  field.required("depth", measure.depth, up_to(kMaxMeasuredTokens));
}

void describe(auto& field, like<CacheQuery> auto& query) {
  field.required("id", query.id);
  field.word("op", query.op, kCacheOps);
  field.group("args", [&](auto& args) {
    args("node", query.node);
    args("session", query.session);
    args("request", query.request);
    args("text", query.text);
  });
}

// ---- worker to daemon

void describe(auto& field, like<Measured> auto& measured) {
  field.required("id", measured.id);
  field.word("outcome", measured.outcome, kMeasureOutcomes);
  field("reason", measured.reason, up_to(kMaxNameBytes));
  field("ms", measured.ms, at_least(0));
  field("next_ms", measured.next_ms, at_least(0));
  field("cpu_ms", measured.cpu_ms, at_least(0));
  field("spent_ms", measured.spent_ms, at_least(0));
  field("memory_bytes", measured.memory_bytes);
}

void describe(auto& field, like<PrefixBreak> auto& found) {
  field.required("matched", found.matched, at_least(0));
  field.required("previous", found.previous, at_least(0));
  field("at_message", found.at_message, at_least(0));
  field("before", found.before_text, up_to(kMaxNameBytes));
  field("now", found.now_text, up_to(kMaxNameBytes));
  field("then", found.then_text, up_to(kMaxNameBytes));
}

void describe(auto& field, like<CachedTokens> auto& cached) {
  field("slot", cached.slot, at_least(0));
  field("host", cached.host, at_least(0));
  field("disk", cached.disk, at_least(0));
  field("coalesced", cached.coalesced, at_least(0));
}

void describe(auto& field, like<Ready> auto& ready) {
  field.group("granted", [&](auto& granted) {
    granted.required("slots", ready.slots, up_to(kMaxSlots));
    granted.required("ctx_per_slot", ready.context_per_slot, at_least(0));
    granted.required("flash_attn", ready.flash_attention);
    granted.required("kv_type", ready.kv_type, up_to(kMaxNameBytes));
  });
  field.group("bytes", [&](auto& bytes) {
    bytes.required("weights", ready.weights_bytes);
    bytes.required("kv", ready.kv_bytes);
    bytes.required("compute", ready.compute_bytes);
    bytes.required("host", ready.host_bytes);
    bytes("repack", ready.repack_bytes);
  });
  field("chat_template", ready.chat_template, up_to(kMaxNameBytes));
  field("supports_reasoning", ready.supports_reasoning);
  field("supports_tools", ready.supports_tools);
  field("backends", ready.backends, up_to(kMaxShortList));
  field("sandbox", ready.sandbox, up_to(kMaxNameBytes));
  field("drafts", ready.drafts);
  field("draft_trouble", ready.draft_trouble, up_to(kMaxNameBytes));
}

void describe(auto& field, like<Phase> auto& phase) {
  field.required("phase", phase.phase, up_to(kMaxNameBytes));
  field("progress", phase.progress, range(0, 1));
}

void describe(auto& field, like<Started> auto& started) {
  field.required("id", started.id);
  field.required("prompt_tokens", started.prompt_tokens, at_least(0));
  field.required("cached_tokens", started.cached_tokens, at_least(0));
  field.required("reasoning_open", started.reasoning_open);
  field("warnings", started.warnings, up_to(kMaxShortList));
  field("splits_reasoning", started.splits_reasoning);
  field("call_spellings", started.call_spellings, up_to(kMaxShortList));
  field("tuning_profile", started.tuning_profile, up_to(kMaxNameBytes));
  field("prefix_break", started.prefix_break);
}

// The best alternatives have none of their own.
void describe(auto& field, like<TokenLogprob> auto& token) {
  const auto own = [](auto& f, auto& t) {
    f.hex("bytes", t.bytes, up_to(kMaxTokenBytes));
    f.required("logprob", t.logprob);
  };
  own(field, token);
  field.list("top", token.top, up_to(kMaxTopLogprobs), own);
}

void describe(auto& field, like<StepRun> auto& run) {
  field.required("id", run.id);
  field.required("text", run.text);
  field.required("n", run.tokens, at_least(0));
  field("logprobs", run.logprobs);
}

void describe(auto& field, like<Step> auto& step) {
  field.required("runs", step.runs, up_to(kMaxSlots));
}

void describe(auto& field, like<Progress> auto& progress) {
  field("id", progress.id);
  field.word("stage", progress.stage, kProgressStages);
  field("ahead", progress.ahead, at_least(0));
  field.required("done", progress.done, at_least(0));
  field.required("total", progress.total, at_least(0));
  field.required("decode_steps", progress.decode_steps);
}

void describe(auto& field, like<Done> auto& done) {
  field.required("id", done.id);
  field.word("reason", done.reason, kDoneReasons);
  field("repetition", done.repetition);
  field.group("usage", [&](auto& usage) {
    usage.required("prompt_tokens", done.prompt_tokens, at_least(0));
    usage.required("completion_tokens", done.completion_tokens, at_least(0));
    usage.required("cached_tokens", done.cached_tokens, at_least(0));
    usage("reasoning_tokens", done.reasoning_tokens, at_least(0));
  });
  field.group("timings", [&](auto& timings) {
    timings.required("prompt_ms", done.prompt_ms, at_least(0));
    timings.required("predicted_ms", done.predicted_ms, at_least(0));
    timings.required("prompt_n", done.prompt_n, at_least(0));
    timings.required("predicted_n", done.predicted_n, at_least(0));
    timings("draft_n", done.draft_n, at_least(0));
    timings("draft_n_accepted", done.draft_n_accepted, at_least(0));
  });
  field("cached", done.cached);
  field("prefix_break", done.prefix_break);
}

void describe(auto& field, like<Failed> auto& failed) {
  field("id", failed.id);
  field.required("kind", failed.kind, up_to(kMaxNameBytes));
  field.required("code", failed.code, up_to(kMaxNameBytes));
  field.required("message", failed.message);
  field("param", failed.param);
  field.word("retry", failed.retry, kRetries);
  field("prompt_tokens", failed.prompt_tokens, at_least(0));
  field("context_tokens", failed.context_tokens, at_least(0));
  field("needed_tokens", failed.needed_tokens, at_least(0));
}

void describe(auto& field, like<CacheStats> auto& cache) {
  field("mode", cache.mode, up_to(kMaxNameBytes));
  field("host_bytes", cache.host_bytes);
  field("host_budget", cache.host_budget);
  field("disk_bytes", cache.disk_bytes);
  field("nodes", cache.nodes, at_least(0));
  field("host_nodes", cache.host_nodes, at_least(0));
  field("disk_nodes", cache.disk_nodes, at_least(0));
  field("cached", cache.cached);
  field("misses", cache.misses);
  field("imports", cache.imports);
  field("failed_imports", cache.failed_imports);
  field("exports", cache.exports);
  field("written", cache.written);
  field("loaded", cache.loaded);
  field("corrupt", cache.corrupt);
  field("disk_errors", cache.disk_errors);
  field("evicted", cache.evicted);
  field("verified", cache.verified);
  field("verify_failed", cache.verify_failed);
}

void describe(auto& field, like<Stats> auto& stats) {
  field.required("slots", stats.slots, at_least(0));
  field("threads", stats.threads, up_to(kMaxThreads));
  field.required("sequences", stats.sequences, at_least(0));
  field("queued", stats.queued, at_least(0));
  field.required("cells_used", stats.cells_used, at_least(0));
  field.required("kv_bytes", stats.kv_bytes);
  field.required("fds", stats.fds, at_least(0));
  field("resident_bytes", stats.resident_bytes);
  field("decode_steps", stats.decode_steps);
  field.required("micro_batches", stats.micro_batches);
  field("prompt_tokens_total", stats.prompt_tokens_total);
  field("cached_tokens_total", stats.cached_tokens_total);
  field("replayed_total", stats.replayed_total);
  field("replay_missed_total", stats.replay_missed_total);
  field("generated_tokens_total", stats.generated_tokens_total);
  field("decode_tps", stats.decode_tps, at_least(0));
  field("prefill_tps", stats.prefill_tps, at_least(0));
  field("pace", stats.pace, at_least(0));
  field("cache", stats.cache);
}

void describe(auto& field, like<CacheNode> auto& node) {
  field.required("id", node.id);
  field.required("parent", node.parent);
  field.required("start", node.start, at_least(0));
  field.required("end", node.end, at_least(0));
  field.word("class", node.kind, kNodeKinds);
  field.required("hits", node.hits);
  field.required("pins", node.pins);
  field.group("bytes", [&](auto& bytes) {
    bytes.required("host", node.host_bytes);
    bytes.required("disk", node.disk_bytes);
  });
  field("slot", node.slot, up_to(kMaxSlots));
  field.required("last_use", node.last_use_ms);
}

void describe(auto& field, like<CacheReply> auto& reply) {
  field.required("id", reply.id);
  field("code", reply.code, up_to(kMaxNameBytes));
  field("message", reply.message);
  field("nodes", reply.nodes, up_to(kMaxCacheNodes));
  field("tokens", reply.tokens, at_least(0));
  field("cached_tokens", reply.cached_tokens, at_least(0));
  field("count", reply.count, at_least(0));
  field("text", reply.text);
  field("prefix_break", reply.prefix_break);
}

void describe(auto& field, like<TokensReply> auto& reply) {
  field.required("id", reply.id);
  field("tokens", reply.tokens, up_to(64 << 20));
  field.required("count", reply.count, at_least(0));
}

}  // namespace gezel::protocol
