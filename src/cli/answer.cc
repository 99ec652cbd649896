#include "cli/answer.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/printer.h"
#include "cli/sse.h"
#include "cli/table.h"

namespace gezel::cli {
namespace {

constexpr Millis kSayLoading{400};  // shorter waits need no explanation

std::string duration(double ms) {
  return ms < 1'000 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} s", ms / 1'000);
}

std::string rate(const json::object& timings, std::string_view field, std::int64_t tokens, double ms) {
  const double value = number_or(timings, field, ms > 0 ? static_cast<double>(tokens) / ms * 1'000 : 0);
  return value > 0 ? fmt::format(", {:.1f} tok/s", value) : "";
}

// Percent-encodes what may not stand in a path; ':' and '/' may.
std::string path_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        std::isalnum(byte) != 0 || std::string_view("-._~:/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

// One `data:` line into `answer`. An error frame is an error.
Result<> take_frame(const json::object& frame, const AnswerHooks& hooks, Answer& answer) {
  if (frame.contains("error")) return std::unexpected(error_of_object(frame, 500));
  if (const json::object* usage = object_at(frame, "usage")) answer.usage = *usage;
  if (const json::object* timings = object_at(frame, "timings")) answer.timings = *timings;
  const json::array* choices = array_at(frame, "choices");
  if (choices == nullptr || choices->empty() || !choices->front().is_object()) return {};
  const json::object& choice = choices->front().get_object();
  if (const std::string reason = string_or(choice, "finish_reason"); !reason.empty())
    answer.finish_reason = reason;
  if (const json::object* delta = object_at(choice, "delta")) {
    const std::string text = string_or(*delta, "content");
    answer.text += text;
    if (!text.empty() && hooks.on_text) hooks.on_text(text);
  }
  return {};
}

}  // namespace

Result<> stream_answer(const DaemonClient& client, json::object body, const AnswerHooks& hooks,
                       Answer& answer) {
  body["stream"] = true;
  body["stream_options"] = json::object{{"include_usage", true}};
  SseReader reader;
  bool started = false, ended = false;
  Result<> outcome;
  const auto on_event = [&](const SseEvent& event) {
    if (event.data == "[DONE]") {
      ended = true;
      return false;
    }
    if (!std::exchange(started, true) && hooks.on_started) hooks.on_started();
    const auto frame = parse_json(event.data);
    if (!frame || !frame->is_object()) {
      outcome = fail(ErrorKind::corrupt, std::string(kCodeBadReply),
                     fmt::format("The daemon sent an event that is not a JSON object{}",
                                 frame ? "" : ": " + frame.error().message));
      return false;
    }
    outcome = take_frame(frame->get_object(), hooks, answer);
    return outcome.has_value();
  };
  const StreamHooks stream_hooks{.on_piece =
                                     [&](std::string_view piece) {
                                       if (auto fed = reader.feed(piece, on_event); !fed) outcome = fed;
                                       return outcome.has_value() && !ended;
                                     },
                                 .on_wait = hooks.on_wait};
  const auto reply = client.stream("/v1/chat/completions", body, stream_hooks);
  if (!outcome) return outcome;
  if (!reply) return std::unexpected(reply.error());
  if (!ended) {
    return fail(ErrorKind::unavailable, std::string(kCodeLost),
                "The answer stopped without its end mark; `gezel ps` shows whether the daemon still runs");
  }
  return {};
}

Result<> print_answer(const Environment& env, const DaemonClient& client, const std::string& model,
                      json::object body, bool& template_said, Answer& answer) {
  StatusLine status(env);
  const AnswerHooks hooks{
      .on_started =
          [&] {
            status.clear();
            if (std::exchange(template_said, true)) return;
            const auto entry = client.get("/v1/models/" + path_text(model));
            if (!entry || !entry->is_object()) return;  // a note, not worth failing for
            const std::string name = string_or(entry->get_object(), "chat_template");
            if (name.starts_with("default:")) {
              print_note(env, fmt::format("chat template: {} (the model file has none)", name));
            }
          },
      .on_text =
          [&](std::string_view text) {
            status.clear();
            *env.out << (env.out_is_terminal ? terminal_text(text) : std::string(text)) << std::flush;
          },
      .on_wait =
          [&](Millis waited) {
            if (answer.text.empty() && waited > kSayLoading) {
              status.show(fmt::format("waiting for {} … {} s", model, waited.count() / 1'000));
            }
          }};
  auto outcome = stream_answer(client, std::move(body), hooks, answer);
  status.clear();
  if (!answer.text.empty() && !answer.text.ends_with('\n')) *env.out << '\n';
  *env.out << std::flush;
  return outcome;
}

std::string describe_figures(const Answer& answer) {
  const std::int64_t prompt = int_or(answer.usage, "prompt_tokens", 0);
  const std::int64_t out = int_or(answer.usage, "completion_tokens", 0);
  const json::object* details = object_at(answer.usage, "prompt_tokens_details");
  const std::int64_t cached = details != nullptr ? int_or(*details, "cached_tokens", 0) : 0;
  const double prompt_ms = number_or(answer.timings, "prompt_ms", 0);
  const double out_ms = number_or(answer.timings, "predicted_ms", 0);
  return fmt::format("{} prompt tokens ({} cached) in {}{}; {} tokens out in {}{}; ended by {}",
                     group_digits(prompt), group_digits(cached), duration(prompt_ms),
                     rate(answer.timings, "prompt_per_second", prompt - cached, prompt_ms), group_digits(out),
                     duration(out_ms), rate(answer.timings, "predicted_per_second", out, out_ms),
                     answer.finish_reason.empty() ? "interruption" : answer.finish_reason);
}

}  // namespace gezel::cli
