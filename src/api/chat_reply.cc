#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "api/chat.h"
#include "api/json_text.h"
#include "api/reply_parts.h"

namespace gezel::api {
namespace {

constexpr std::string_view kNoFinish = R"(,"finish_reason":null)";

// Calls win over everything (spec 10 section 6.5).
std::string_view reason_name(engine::FinishReason reason, bool calls) {
  if (calls) return "tool_calls";
  return reason == engine::FinishReason::length ? "length" : "stop";
}

// "id":...,"object":...,"created":...,"model":...,"system_fingerprint":...
std::string shared_members(const ChatReplyHead& head, std::string_view object) {
  std::string out = R"("id":)";
  append_json_string(out, head.id);
  fmt::format_to(std::back_inserter(out), R"(,"object":"{}","created":{},"model":)", object, head.created);
  append_json_string(out, head.model);
  out += R"(,"system_fingerprint":)";
  if (head.system_fingerprint.empty()) {
    out += "null";
  } else {
    append_json_string(out, head.system_fingerprint);
  }
  return out;
}

void append_usage(std::string& out, const engine::Usage& usage) {
  fmt::format_to(std::back_inserter(out),
                 R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                 R"("prompt_tokens_details":{{"cached_tokens":{})",
                 usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens,
                 usage.cached_tokens);
  const auto& from = usage.cached_from;
  if (from.slot != 0 || from.host != 0 || from.disk != 0 || from.coalesced != 0) {
    fmt::format_to(std::back_inserter(out),
                   R"(,"cached_from":{{"slot":{},"host":{},"disk":{},"coalesced":{}}})", from.slot, from.host,
                   from.disk, from.coalesced);
  }
  fmt::format_to(std::back_inserter(out), R"(}},"completion_tokens_details":{{"reasoning_tokens":{}}}}})",
                 usage.reasoning_tokens);
}

std::string reason_of(const engine::Progress& progress) {
  return progress.reason.empty() ? fmt::format("waiting for a place, {} ahead", progress.ahead)
                                 : progress.reason;
}

double per_second(std::int64_t count, double ms) {
  return ms > 0 ? static_cast<double>(count) * 1000.0 / ms : 0;
}

// Spec 30 section 12.9.3.
void append_timings(std::string& out, const engine::Timings& timings) {
  const auto member = [&out](std::string_view name, double value) {
    out += name;
    append_json_number(out, value);
  };
  fmt::format_to(std::back_inserter(out), R"("timings":{{"cache_n":{},"prompt_n":{})", timings.cache_n,
                 timings.prompt_n);
  member(R"(,"prompt_ms":)", timings.prompt_ms);
  member(R"(,"prompt_per_second":)", per_second(timings.prompt_n, timings.prompt_ms));
  fmt::format_to(std::back_inserter(out), R"(,"predicted_n":{})", timings.predicted_n);
  member(R"(,"predicted_ms":)", timings.predicted_ms);
  member(R"(,"predicted_per_second":)", per_second(timings.predicted_n, timings.predicted_ms));
  fmt::format_to(std::back_inserter(out), R"(,"draft_n":{},"draft_n_accepted":{}}})", timings.draft_n,
                 timings.draft_n_accepted);
}

// `x_gezel`, where there is anything to say.
void append_notes(std::string& out, const engine::Done& done, const ChatMessage& message) {
  const json::object notes = notes_json(done, message);
  if (!notes.empty()) out.append(R"(,"x_gezel":)").append(to_json(notes));
}

void append_call(std::string& out, std::string_view id, std::string_view name, std::string_view arguments) {
  out += R"("id":)";
  append_json_string(out, id);
  out += R"(,"type":"function","function":{"name":)";
  append_json_string(out, name);
  out += R"(,"arguments":)";
  append_json_string(out, arguments);
  out += '}';
}

void append_logprob_members(std::string& out, const engine::TokenLogprob& token) {
  out += R"({"token":)";
  append_json_string(out, token.token);
  const float logprob = std::isfinite(token.logprob) ? token.logprob : kLowestLogprob;
  fmt::format_to(std::back_inserter(out), R"(,"logprob":{:.7g},"bytes":[)", logprob);
  for (std::size_t i = 0; i < token.bytes.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",",
                   static_cast<unsigned char>(token.bytes[i]));
  }
  out += ']';
}

void append_logprobs(std::string& out, const std::vector<engine::TokenLogprob>& tokens) {
  out += R"("logprobs":{"content":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_logprob_members(out, tokens[i]);
    out += R"(,"top_logprobs":[)";
    for (std::size_t j = 0; j < tokens[i].top.size(); ++j) {
      if (j > 0) out += ',';
      append_logprob_members(out, tokens[i].top[j]);
      out += '}';
    }
    out += "]}";
  }
  out += R"(],"refusal":null})";
}

}  // namespace

ChatFrames::ChatFrames(const ChatReplyHead& head) {
  const std::string start = "data: {" + shared_members(head, "chat.completion.chunk");
  head_ = start + R"(,"choices":[{"index":0,)";
  usage_head_ = start + R"(,"choices":[],)";
  if (head.include_usage) usage_null_ = R"(,"usage":null)";
}

std::string ChatFrames::frame(std::string_view choice, std::string_view extra) const {
  std::string out;
  out.reserve(head_.size() + choice.size() + usage_null_.size() + extra.size() + 6);
  out.append(head_).append(choice).append("}]").append(usage_null_).append(extra).append("}\n\n");
  return out;
}

std::string ChatFrames::opener() const {
  return frame(R"("delta":{"role":"assistant","content":""},"finish_reason":null)");
}

std::string ChatFrames::content(std::string_view text, const std::vector<engine::TokenLogprob>& logprobs,
                                bool with_logprobs) const {
  std::string out;
  out.reserve(head_.size() + text.size() + usage_null_.size() + 96);
  out += head_;
  out += R"("delta":{"content":)";
  append_json_string(out, text);
  out += '}';
  if (with_logprobs) {
    out += ',';
    append_logprobs(out, logprobs);
  }
  out.append(kNoFinish).append("}]").append(usage_null_).append("}\n\n");
  return out;
}

std::string ChatFrames::reasoning(std::string_view text) const {
  std::string choice = R"("delta":{"reasoning_content":)";
  append_json_string(choice, text);
  choice.append("}").append(kNoFinish);
  return frame(choice);
}

std::string ChatFrames::call(int index, std::string_view id, std::string_view name,
                             std::string_view arguments) const {
  std::string choice = fmt::format(R"("delta":{{"tool_calls":[{{"index":{},)", index);
  append_call(choice, id, name, arguments);
  choice.append("}]}").append(kNoFinish);
  return frame(choice);
}

std::string ChatFrames::call_arguments(int index, std::string_view text) const {
  std::string choice =
      fmt::format(R"("delta":{{"tool_calls":[{{"index":{},"function":{{"arguments":)", index);
  append_json_string(choice, text);
  choice.append("}}]}").append(kNoFinish);
  return frame(choice);
}

std::string ChatFrames::progress(const engine::Progress& progress, std::int64_t cached_tokens,
                                 std::int64_t time_ms) const {
  return frame(R"("delta":{},"finish_reason":null)",
               fmt::format(R"(,"prompt_progress":{{"total":{},"cache":{},"processed":{},"time_ms":{}}})",
                           progress.total, cached_tokens, progress.done, time_ms));
}

std::string ChatFrames::queued(const engine::Progress& progress) const {
  std::string extra = fmt::format(R"(,"queue_progress":{{"ahead":{},"reason":)", progress.ahead);
  append_json_string(extra, reason_of(progress));
  return frame(R"("delta":{},"finish_reason":null)", extra + '}');
}

std::string sse_waiting(const engine::Progress& progress) {
  std::string reason = reason_of(progress);
  // A model's name may hold anything; a line end would begin another field.
  std::ranges::replace_if(reason, [](unsigned char c) { return c < 0x20; }, ' ');
  return fmt::format(": {}\n\n", reason);
}

std::string ChatFrames::finish(const engine::Done& done, const ChatMessage& message) const {
  std::string extra = ",";
  append_timings(extra, done.timings);
  append_notes(extra, done, message);
  return frame(
      fmt::format(R"("delta":{{}},"finish_reason":"{}")", reason_name(done.reason, !message.calls.empty())),
      extra);
}

std::string ChatFrames::usage(const engine::Done& done) const {
  std::string out = usage_head_;
  append_usage(out, done.usage);
  out += "}\n\n";
  return out;
}

std::string chat_stream_error(const ApiError& error, std::string_view request_id) {
  // Inside a stream the type is always server_error: the request itself was accepted (spec 10 section 6.6).
  ApiError streamed = error;
  streamed.type = "server_error";
  return "data: " + error_body(streamed, request_id) + "\n\n";
}

std::string chat_completion(const ChatReplyHead& head, const ChatMessage& message,
                            const std::vector<engine::TokenLogprob>& logprobs, bool with_logprobs,
                            const engine::Done& done) {
  std::string out = "{" + shared_members(head, "chat.completion");
  out += R"(,"choices":[{"index":0,"message":{"role":"assistant","content":)";
  append_json_string(out, message.content);
  if (message.reasoning) {
    out += R"(,"reasoning_content":)";
    append_json_string(out, *message.reasoning);
  }
  if (!message.calls.empty()) {
    out += R"(,"tool_calls":[)";
    for (std::size_t i = 0; i < message.calls.size(); ++i) {
      out += i > 0 ? ",{" : "{";
      append_call(out, message.calls[i].id, message.calls[i].name, message.calls[i].arguments);
      out += '}';
    }
    out += ']';
  }
  out += R"(,"refusal":null},)";
  if (with_logprobs) {
    append_logprobs(out, logprobs);
  } else {
    out += R"("logprobs":null)";
  }
  fmt::format_to(std::back_inserter(out), R"(,"finish_reason":"{}"}}],)",
                 reason_name(done.reason, !message.calls.empty()));
  append_usage(out, done.usage);
  out += ',';
  append_timings(out, done.timings);
  append_notes(out, done, message);
  out += '}';
  return out;
}

}  // namespace gezel::api
