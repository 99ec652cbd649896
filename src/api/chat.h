// api/chat.h
//
// POST /v1/chat/completions: the request as a type, its validation, and the reply as JSON (spec 10 sections 3
// and 6). Pure: bytes in, types or bytes out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "engine/engine.h"
#include "prompt/request.h"

namespace gezel::api {

struct ChatRequest {
  std::string
      model;  // byte for byte as sent; echoed in every reply. "": none was named, the default is meant
  bool stream = false;
  bool include_usage = false;
  bool include_reasoning = false;
  bool return_progress = false;
  std::string caller;  // identity of the key it came with; set by the transport
  // session_key holds `prompt_cache_key` as sent; the transport replaces it by affinity_key()
  // (api/exchange.h).
  prompt::GenerateRequest generate;
};

// Limits on what a well-formed body may hold; exceeding one is `invalid_body` and names it. Those of lists
// lie below what the protocol to a worker takes (protocol/fields.h), so that a worker can read whatever
// passes.
inline constexpr std::size_t kMaxModelIdBytes = 512;
inline constexpr std::size_t kMaxStopStrings = 16;
inline constexpr std::size_t kMaxMessages = 65'536;
inline constexpr std::size_t kMaxContentParts = 4096;  // of one message
inline constexpr std::size_t kMaxToolCalls = 4096;     // of one message
inline constexpr std::size_t kMaxTools = 1024;
inline constexpr std::size_t kMaxLogitBias = 4096;
inline constexpr std::size_t kMaxDryBreakers = 128;
inline constexpr std::int64_t kMaxWindowTokens = 1 << 30;  // of `num_ctx`

// Validates a request body and translates it (spec 10 section 6.2): system texts joined into one message at
// the front, text parts joined by line ends. Every bad field is named, all of them in one message ("path:
// problem; path: problem").
ApiResult<ChatRequest> parse_chat_request(std::string_view body);

// What every frame of one reply shares.
struct ChatReplyHead {
  std::string id;  // "chatcmpl-<uuid>"
  std::int64_t created = 0;
  std::string model;
  std::string system_fingerprint;  // "" = null
  bool include_usage = false;
};

// A finished answer, besides what the engine says of it.
struct ChatMessage {
  struct Call {
    std::string id, name, arguments;
    std::string engine_id;  // the id that the model itself wrote, or ""; never on the wire
  };
  struct Unparsed {
    std::string name, text;
  };
  std::string content;
  std::optional<std::string> reasoning;  // where the client asked for it
  std::vector<Call> calls;
  // All that the model wrote, for when the conversation comes back. Only with calls; unset: it is not known
  // where reasoning ended.
  std::optional<prompt::Sampled> sampled;
  // --- `x_gezel`: what the client should know about an answer that was given all the same
  std::vector<std::string> warnings;
  std::vector<std::string> repairs;  // what was changed in the model's calls, and why
  std::vector<Unparsed> unparsed;    // what looked like a call and is none that could be made
  // The tuning profile whose values were used, where there was one or one was asked for; "": the model's own.
  std::optional<std::string> tuning_profile;
  // The client asked where its prompt left what was computed before (X-Gezel-Debug).
  bool show_prefix_break = false;
};

// The frames of one streamed reply, each one SSE event ("data: {...}\n\n"), in the order of spec 10
// section 6.6. The constant head and tail are serialised once; a delta only splices its escaped text between
// them.
class ChatFrames {
 public:
  explicit ChatFrames(const ChatReplyHead& head);

  std::string opener() const;
  // With `with_logprobs` the choice carries `logprobs` in OpenAI's shape.
  std::string content(std::string_view text, const std::vector<engine::TokenLogprob>& logprobs,
                      bool with_logprobs) const;
  std::string reasoning(std::string_view text) const;
  // A call begins: its place among the answer's calls, id and name; `arguments` may already be complete.
  std::string call(int index, std::string_view id, std::string_view name, std::string_view arguments) const;
  std::string call_arguments(int index, std::string_view text) const;
  // Prefill progress (return_progress): an empty delta with `prompt_progress` {total, cache, processed,
  // time_ms}.
  std::string progress(const engine::Progress& progress, std::int64_t cached_tokens,
                       std::int64_t time_ms) const;
  // Where the request waits (return_progress): an empty delta with `queue_progress` {ahead, reason}.
  std::string queued(const engine::Progress& progress) const;
  // With `timings`, and `x_gezel` where there is anything to say. Of the message only that is used, and
  // whether it has calls.
  std::string finish(const engine::Done& done, const ChatMessage& message) const;
  std::string usage(const engine::Done& done) const;  // only with include_usage: choices [], usage

 private:
  std::string frame(std::string_view choice, std::string_view extra = {}) const;

  std::string head_;        // data: {"id":..., ... ,"choices":[{"index":0,
  std::string usage_head_;  // data: {"id":..., ... ,"choices":[]
  std::string usage_null_;  // ,"usage":null or nothing
};

std::string chat_stream_error(const ApiError& error, std::string_view request_id = {});
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseKeepalive = ": keepalive\n\n";
// The same for a request that waits: it says for what, to whoever looks.
std::string sse_waiting(const engine::Progress& progress);

// The whole reply of a request that was not streamed.
std::string chat_completion(const ChatReplyHead& head, const ChatMessage& message,
                            const std::vector<engine::TokenLogprob>& logprobs, bool with_logprobs,
                            const engine::Done& done);

}  // namespace gezel::api
