#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "api/chat.h"
#include "api/json_text.h"

namespace gezel::api {
namespace {

constexpr std::string_view kNoFinish = R"(,"finish_reason":null)";
// What stands for a probability of zero, whose logarithm JSON cannot say; OpenAI's own value.
constexpr float kLowestLogprob = -9999.0F;

std::string_view reason_name(engine::FinishReason reason) {
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
                 R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                 usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens,
                 usage.cached_tokens);
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

// What the client should know about an answer that was given all the same.
void append_warnings(std::string& out, const std::vector<std::string>& warnings) {
  if (warnings.empty()) return;
  out += R"(,"x_gezel":{"warnings":[)";
  for (std::size_t i = 0; i < warnings.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, warnings[i]);
  }
  out += "]}";
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

std::string ChatFrames::progress(const engine::Progress& progress, std::int64_t cached_tokens,
                                 std::int64_t time_ms) const {
  return frame(R"("delta":{},"finish_reason":null)",
               fmt::format(R"(,"prompt_progress":{{"total":{},"cache":{},"processed":{},"time_ms":{}}})",
                           progress.total, cached_tokens, progress.done, time_ms));
}

std::string ChatFrames::finish(const engine::Done& done, const std::vector<std::string>& warnings) const {
  std::string extra = ",";
  append_timings(extra, done.timings);
  append_warnings(extra, warnings);
  return frame(fmt::format(R"("delta":{{}},"finish_reason":"{}")", reason_name(done.reason)), extra);
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

std::string chat_completion(const ChatReplyHead& head, std::string_view content,
                            const std::vector<engine::TokenLogprob>& logprobs, bool with_logprobs,
                            const engine::Done& done, const std::vector<std::string>& warnings) {
  std::string out = "{" + shared_members(head, "chat.completion");
  out += R"(,"choices":[{"index":0,"message":{"role":"assistant","content":)";
  append_json_string(out, content);
  out += R"(,"refusal":null},)";
  if (with_logprobs) {
    append_logprobs(out, logprobs);
  } else {
    out += R"("logprobs":null)";
  }
  fmt::format_to(std::back_inserter(out), R"(,"finish_reason":"{}"}}],)", reason_name(done.reason));
  append_usage(out, done.usage);
  out += ',';
  append_timings(out, done.timings);
  append_warnings(out, warnings);
  out += '}';
  return out;
}

}  // namespace gezel::api
