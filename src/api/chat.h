// api/chat.h
//
// POST /v1/chat/completions: the request as a type, its validation, and the reply as JSON (spec 10 sections 3 and 6).
// Pure: bytes in, types or bytes out.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "base/result.h"
#include "engine/engine.h"
#include "prompt/request.h"

namespace gezel::api {

struct ChatRequest {
  std::string model;  // byte for byte as sent; echoed in every reply
  bool stream = false;
  bool include_usage = false;
  bool include_reasoning = false;
  bool return_progress = false;
  prompt::GenerateRequest generate;
};

// Validates a request body. Every bad field is named, all of them in one message ("path: problem; path: problem").
ApiResult<ChatRequest> parse_chat_request(std::string_view body);

// What every frame of one reply shares.
struct ChatReplyHead {
  std::string id;  // "chatcmpl-<uuid>"
  std::int64_t created = 0;
  std::string model;
  bool include_usage = false;
};

// One SSE frame each ("data: {...}\n\n"), in the order of spec 10 section 6.6.
std::string chat_opener(const ChatReplyHead& head);
std::string chat_content_delta(const ChatReplyHead& head, std::string_view text,
                               const std::vector<engine::TokenLogprob>& logprobs, bool with_logprobs);
std::string chat_finish(const ChatReplyHead& head, engine::FinishReason reason, const engine::Done& done);
std::string chat_usage(const ChatReplyHead& head, const engine::Done& done);
std::string chat_stream_error(const ApiError& error);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseKeepalive = ": keepalive\n\n";

// The whole reply of a request that was not streamed.
std::string chat_completion(const ChatReplyHead& head, std::string_view content,
                            const std::vector<engine::TokenLogprob>& logprobs, bool with_logprobs,
                            const engine::Done& done);

}  // namespace gezel::api
