// prompt/request.h
//
// What a model is asked, in neutral terms: messages, tools, sampling, limits. Built by `api` from a client's
// request, sent to a worker by `protocol`, rendered by `template`. Plain data; nothing here renders or
// validates.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace gezel::prompt {

enum class Role { system, developer, user, assistant, tool };

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as the caller sent it
};

struct ContentPart {
  enum class Kind { text, image };
  Kind kind = Kind::text;
  std::string text;  // the text, or the image as a data URI
};

// What the model itself wrote for an assistant message, byte for byte, where that is still known.
struct Sampled {
  std::string text;                 // after the prompt it answered, without the token that ended it
  std::size_t reasoning_bytes = 0;  // so much of its front is reasoning, with closer and white space after it
  bool began_in_reasoning = false;  // the prompt had opened the block already
};

struct Message {
  Role role = Role::user;
  std::vector<ContentPart> content;  // empty: null or absent
  std::string reasoning;  // earlier reasoning of an assistant message, replayed only where a template asks
  std::vector<ToolCall> tool_calls;
  std::optional<Sampled> sampled;  // put in the place of what the template would make of the message
  std::string tool_call_id;        // role tool: the call it answers
  std::string name;                // role tool: the function's name where known
};

// A tool exactly as the caller sent it: order of keys included, because it becomes part of the prompt's
// prefix.
struct Tool {
  std::string name;
  std::string json;  // {"type":"function","function":{...}}
};

// Unset = what holds for the model (prompt/tuning.h), else the engine's default.
// Names and meanings are those of llama.cpp's server.
struct SamplingOptions {
  std::optional<float> temperature;
  std::optional<int> top_k;  // <= 0: off
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> typical_p;
  std::optional<float> repeat_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<int> repeat_last_n;  // 0: off, -1: the whole context
  std::optional<float> dry_multiplier;
  std::optional<float> dry_base;
  std::optional<int> dry_allowed_length;
  std::optional<int> dry_penalty_last_n;
  std::optional<std::vector<std::string>> dry_sequence_breakers;
  std::optional<float> xtc_probability;
  std::optional<float> xtc_threshold;
  std::optional<int> mirostat;  // 0 off, 1, 2
  std::optional<float> mirostat_tau;
  std::optional<float> mirostat_eta;
  std::optional<std::uint32_t> seed;                       // unset: a random one
  std::vector<std::pair<std::int32_t, float>> logit_bias;  // token id, added to its logit; -inf bans
  bool ignore_eos = false;
};

enum class ToolChoice { automatic, none, required, named };

// How far what the model wrote may be read as a tool call.
enum class ToolPolicy {
  repair,  // damage is repaired and said in the reply
  strict,  // only calls that need no repair count; what does not is given back as it was written
  raw,     // text is text: no grammar holds the model to a form and none is looked for
};

// What the answer must look like. The constraint begins when reasoning ends.
struct OutputFormat {
  enum class Kind { text, json_object, json_schema, regex, lark, gbnf };
  Kind kind = Kind::text;
  std::string definition;  // the schema as JSON text, the pattern, the grammar; "" = any object
};

enum class Lane { interactive, background, batch };  // the most urgent first

// How a request stands in the daemon's queue; a worker never sees it.
struct QueueTerms {
  std::string caller;                // whose it is; empty: unknown
  bool ambient = false;              // background work that nobody waits for
  std::optional<Millis> wait_limit;  // how long it may wait for memory or a place; unset: as its lane says
};

struct GenerateRequest {
  std::string session_key;  // affinity hint; empty: none
  // The session that this one was forked from: its slot is left to it for a while. Empty: none.
  std::string parent_session;
  // Whose it is, where tenants share nothing that was computed for them. Empty: with all that have none.
  std::string tenant;
  bool ephemeral = false;        // never resumed: nothing behind its system text is kept
  bool prefix_snippets = false;  // says with text where the prompt left what was computed before
  Lane lane = Lane::interactive;
  QueueTerms queue;
  std::vector<Message> messages;
  std::vector<Tool> tools;
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_name;  // with `named`: the one function that must be called
  ToolPolicy tool_policy = ToolPolicy::repair;
  bool parallel_tool_calls = true;  // false: at most one call in the answer
  OutputFormat output_format;
  // Extra template variables as one JSON object text ("" = none), on top of enable_thinking.
  std::string template_kwargs;
  std::string reasoning_effort;  // "" = not said
  std::string tuning_profile;    // of prompt/tuning_profiles.h; "" = as was chosen for the model
  SamplingOptions sampling;
  // Unset: as the model's tuning says, else until the model stops or the window is full.
  std::optional<int> max_output_tokens;
  // The model must be loaded with a window of at least so many tokens, before a worker is sent the request.
  // Unset: whatever it turns out to need.
  std::optional<std::int64_t> context;
  // Of one reasoning block, then it is closed. 0: no limit; unset: as the model's tuning says, else none.
  std::optional<int> max_thinking_tokens;
  bool guards = true;  // stop an answer that repeats itself without end
  std::vector<std::string> stop;
  bool logprobs = false;
  int top_logprobs = 0;
};

}  // namespace gezel::prompt
