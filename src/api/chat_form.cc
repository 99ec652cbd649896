#include "api/chat_form.h"

namespace gezel::api {

std::string ChatForm::whole(const ChatMessage& message, const std::vector<engine::TokenLogprob>& logprobs,
                            const engine::Done& done) {
  return chat_completion(head_, message, logprobs, logprobs_, done);
}

// Log-probabilities go with the first content of their tokens; where there is none (a call, reasoning) they
// go alone.
std::string ChatForm::delta(const turn::Events& events, std::span<const engine::TokenLogprob> logprobs) {
  std::string out;
  std::vector<engine::TokenLogprob> unsent;
  if (logprobs_) unsent.assign(logprobs.begin(), logprobs.end());
  for (const turn::Event& event : events) {
    if (const auto* content = std::get_if<turn::ContentDelta>(&event)) {
      out += frames_.content(content->text, unsent, logprobs_);
      unsent.clear();
    } else if (const auto* reasoning = std::get_if<turn::ReasoningDelta>(&event)) {
      out += frames_.reasoning(reasoning->text);
    } else if (const auto* begin = std::get_if<turn::CallBegin>(&event)) {
      out += frames_.call(begin->index, begin->id, begin->name, "");
    } else if (const auto* arguments = std::get_if<turn::CallArgumentsDelta>(&event)) {
      out += frames_.call_arguments(arguments->index, arguments->text);
    }
    // Nothing that was streamed can be taken back: Replace and CallEnd have no frame.
  }
  if (!unsent.empty()) out += frames_.content("", unsent, logprobs_);
  return out;
}

std::string ChatForm::end(const turn::Events& events, const ChatMessage& message, const engine::Done& done) {
  std::string out = delta(events, {});
  out += frames_.finish(done, message);
  if (head_.include_usage) out += frames_.usage(done);
  out += kSseDone;
  return out;
}

std::string ChatForm::failure(const ApiError& error, std::string_view request_id) {
  return chat_stream_error(error, request_id) + std::string(kSseDone);
}

std::string ChatForm::keepalive(const std::optional<engine::Progress>& waits) {
  return waits ? sse_waiting(*waits) : std::string(kSseKeepalive);
}

}  // namespace gezel::api
