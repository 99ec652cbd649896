// api/responses_form.h
//
// The answers of POST /v1/responses (spec 10 sections 7.4 to 7.6): an object of items, or events with gapless
// numbers in which one item at a time is open.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/reply_form.h"
#include "api/responses.h"
#include "base/clock.h"
#include "base/ids.h"

namespace gezel::api {

class ResponsesForm final : public ReplyForm {
 public:
  // `clock` and `entropy`, which makes the ids of items, must outlive this.
  ResponsesForm(const Clock& clock, Entropy& entropy, std::string model, ResponsesRequest request);

  std::string whole(const ChatMessage& message, const std::vector<engine::TokenLogprob>& logprobs,
                    const engine::Done& done) override;
  std::string opener() override;
  std::string delta(const turn::Events& events, std::span<const engine::TokenLogprob> logprobs) override;
  std::string end(const turn::Events& events, const ChatMessage& message, const engine::Done& done) override;
  std::string failure(const ApiError& error, std::string_view request_id) override;
  std::string keepalive(const std::optional<engine::Progress>& waits) override;
  // The events of this API have no place for progress, and clients refuse events that they do not know.
  std::string queued(const engine::Progress&) override { return {}; }
  std::string prefill(const engine::Progress&, std::int64_t, std::int64_t) override { return {}; }
  std::optional<ApiError> fault() const override { return fault_; }

  // Of one answer; what exceeds them fails it (section 7.5 rule 5).
  static constexpr std::size_t kMaxText = 4'000'000;  // bytes, of all text
  static constexpr std::size_t kMaxArguments = 1'000'000;
  static constexpr std::size_t kMaxItems = 256;

 private:
  enum class Open { none, message, reasoning, function, custom };

  void on_event(const turn::Event& event);
  void on_text(std::string_view text);
  void on_reasoning(std::string_view text);
  void on_call(const turn::CallBegin& call);
  void on_arguments(std::string_view text);
  void open(Open kind, json::object item);
  void close(std::string_view status);
  void close_message();
  void close_reasoning();
  void close_function();
  void close_custom(std::string_view status);
  void break_off(std::string message);

  // Appends an event to what is to be sent.
  void emit(std::string_view type, json::object members);
  // The same for what comes once a token:
  // {"type","sequence_number","item_id","output_index",`place`,"delta"}.
  void emit_delta(std::string_view type, std::string_view place, std::string_view text,
                  std::string_view after = {});
  void emit_response(std::string_view type, json::object response) {
    emit(type, {{"response", std::move(response)}});
  }
  json::object with_place(json::object members) const;
  json::object response(std::string_view status) const;
  void fill(json::object& response, const ChatMessage& message, const engine::Done& done) const;
  std::string new_id(std::string_view prefix) { return std::string(prefix) + new_uuid(entropy_); }
  std::string taken() { return std::exchange(out_, {}); }

  const Clock& clock_;
  Entropy& entropy_;
  const std::string id_;
  const std::int64_t created_;
  const std::string model_;
  const ResponsesRequest request_;

  std::string out_;  // events that nobody took yet
  std::uint64_t sequence_ = 0;
  json::array output_;  // items that are complete
  std::string text_;    // of all messages
  Open open_ = Open::none;
  json::object item_;      // that is open
  std::string item_text_;  // its text or its arguments
  std::vector<engine::TokenLogprob> item_logprobs_, unsent_logprobs_;
  std::size_t text_bytes_ = 0;
  std::optional<ApiError> fault_;
};

}  // namespace gezel::api
