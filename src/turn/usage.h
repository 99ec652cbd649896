// turn/usage.h
//
// The arithmetic around one turn: how large a prompt is before it is tokenized, how much may be generated,
// how much of a tool's result is kept, and how a turn ended. From spec 50 sections 10.1, 11.3, 12.1, 14.1
// and 14.2. Characters are Unicode scalar values.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gezel::turn {

// Scalar values of well-formed UTF-8; of broken text, the bytes that begin something.
std::int64_t count_chars(std::string_view utf8);

// --- size of a prompt (12.1), for routing and for engines whose tokenizer is out of reach

inline constexpr std::int64_t kCharsPerToken = 4;
inline constexpr std::int64_t kImageChars = 8192;  // whatever the image's size in bytes

struct PromptSize {
  std::int64_t chars = 0;  // messages and tools in the body that will be sent; no base64 of images
  int images = 0;          // images still in it
};
std::int64_t estimate_tokens(const PromptSize& size);

// --- how much may be generated (10.1, 10.2)

inline constexpr std::int64_t kDefaultOutputTokens = 16384;
inline constexpr std::int64_t kMinOutputTokens = 256;

struct OutputLimitRequest {
  std::optional<std::int64_t> max_completion_tokens;  // the caller's; wins over
  std::optional<std::int64_t> max_tokens;             // the caller's older name for it
  std::optional<std::int64_t> profile_tokens;         // the model profile's, when the caller says nothing
  std::int64_t floor_tokens = 0;  // raises the profile's or default value, never the caller's
  std::int64_t context_tokens = 0;
  std::int64_t prompt_tokens = 0;
};
// Tokens that may be generated: at most context - prompt. Error `context_length_exceeded` when fewer than
// kMinOutputTokens remain, or fewer than the caller asked for if that is less.
Result<std::int64_t> output_limit(const OutputLimitRequest& request);

// --- how much of a tool's result is kept (11.3)

struct ResultCap {
  std::int64_t usable_tokens = 0;
  std::int64_t transcript_tokens = 0;
  std::int64_t remaining_tokens = 0;
  std::int64_t cap_chars = 0;
};
ResultCap result_cap(std::int64_t context_tokens, std::int64_t prompt_chars);

// `text` if it has at most `cap_chars` characters; else a part of it and a note that says so and how to get
// the rest, together at most `cap_chars`. The output of a failed command keeps its head and its tail, because
// the cause is usually in the last lines.
std::string cap_result(std::string_view text, std::int64_t cap_chars);
// Characters of the tail that is kept.
std::int64_t failed_command_tail(std::int64_t cap_chars);
// `✗ NAME failed (exit ...` or `(timed out ...` in the first 200 characters.
bool failed_command(std::string_view text);

// --- how it ended (14.1) and what it cost (14.2)

enum class FinishReason { stop, length, tool_calls, content_filter };
std::string_view to_string(FinishReason reason);

struct FinishFacts {
  bool calls = false;                  // calls are returned
  bool call_cut_short = false;         // a call that was already announced in the stream is incomplete
  std::optional<FinishReason> engine;  // the engine's own cause
  std::int64_t output_tokens = 0;
  std::int64_t output_limit = 0;  // 0: unknown
  bool content_filter = false;    // an upstream said so, without a cause of its own
};
FinishReason finish_reason(const FinishFacts& facts);

// Of one iteration or, summed by add, of a turn.
struct Usage {
  std::int64_t prompt_tokens = 0;      // of the last iteration
  std::int64_t completion_tokens = 0;  // of all iterations: every channel, calls, discarded attempts
  std::int64_t reasoning_tokens = 0;   // part of completion_tokens
  std::int64_t cached_tokens = 0;      // part of prompt_tokens
  int iterations = 0;
  bool estimated = false;  // some figure is an estimate of ours, not the engine's

  std::int64_t total_tokens() const { return prompt_tokens + completion_tokens; }
  void add(const Usage& iteration);
};

}  // namespace gezel::turn
