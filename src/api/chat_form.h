// api/chat_form.h
//
// The answers of POST /v1/chat/completions (spec 10 sections 6.5 and 6.6).
#pragma once
#include "api/reply_form.h"

namespace gezel::api {

class ChatForm final : public ReplyForm {
 public:
  ChatForm(ChatReplyHead head, bool logprobs) : head_(std::move(head)), frames_(head_), logprobs_(logprobs) {}

  std::string whole(const ChatMessage& message, const std::vector<engine::TokenLogprob>& logprobs,
                    const engine::Done& done) override;
  std::string opener() override { return frames_.opener(); }
  std::string delta(const turn::Events& events, std::span<const engine::TokenLogprob> logprobs) override;
  std::string end(const turn::Events& events, const ChatMessage& message, const engine::Done& done) override;
  std::string failure(const ApiError& error, std::string_view request_id) override;
  std::string keepalive(const std::optional<engine::Progress>& waits) override;
  std::string queued(const engine::Progress& progress) override { return frames_.queued(progress); }
  std::string prefill(const engine::Progress& progress, std::int64_t cached_tokens,
                      std::int64_t time_ms) override {
    return frames_.progress(progress, cached_tokens, time_ms);
  }

 private:
  const ChatReplyHead head_;
  const ChatFrames frames_;
  const bool logprobs_;
};

}  // namespace gezel::api
