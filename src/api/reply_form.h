// api/reply_form.h
//
// How one API words an answer: what a turn produced becomes the bytes of a reply, whole or streamed. One
// object words one reply, in the order in which its functions stand here. Pure; who sends the bytes and when
// is http/answer.h.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat.h"
#include "api/error.h"
#include "engine/engine.h"
#include "turn/events.h"

namespace gezel::api {

class ReplyForm {
 public:
  virtual ~ReplyForm() = default;

  // The body of a reply that is not streamed; `logprobs` of all tokens, where they were asked for.
  virtual std::string whole(const ChatMessage& message, const std::vector<engine::TokenLogprob>& logprobs,
                            const engine::Done& done) = 0;

  // What begins a stream.
  virtual std::string opener() = 0;
  // What came next. "": nothing that this API shows. Log-probabilities are those of the tokens that came,
  // also of tokens that are not shown yet.
  virtual std::string delta(const turn::Events& events, std::span<const engine::TokenLogprob> logprobs) = 0;
  // What ends a stream that went well; `events` is what it has not shown yet.
  virtual std::string end(const turn::Events& events, const ChatMessage& message,
                          const engine::Done& done) = 0;
  // Why the answer cannot be worded, once that is known: what was worded until then is sent, then failure().
  virtual std::optional<ApiError> fault() const { return std::nullopt; }
  // What ends a stream that did not.
  virtual std::string failure(const ApiError& error, std::string_view request_id) = 0;

  // What is sent into a silence so that nobody on the way gives up; `waits` is what the request waits for,
  // while it does.
  virtual std::string keepalive(const std::optional<engine::Progress>& waits) = 0;
  // Progress, for clients that asked for it. "": this API has no words for it.
  virtual std::string queued(const engine::Progress& progress) = 0;
  virtual std::string prefill(const engine::Progress& progress, std::int64_t cached_tokens,
                              std::int64_t time_ms) = 0;
};

}  // namespace gezel::api
