// cli/answer.h
//
// One streamed answer of POST /v1/chat/completions: events into text, figures and errors.
#pragma once
#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/daemon_client.h"

namespace gezel::cli {

struct Answer {
  std::string text;           // as far as it came
  std::string finish_reason;  // "" when the stream did not end by itself
  json::object usage;
  json::object timings;
};

struct AnswerHooks {
  std::function<void()> on_started;               // once, with the first event: the model is loaded
  std::function<void(std::string_view)> on_text;  // each piece, in order
  std::function<void(Millis)> on_wait;            // while nothing comes
};

// `body` is a request without "stream". `answer` is filled as events arrive, so that it holds what there was
// when this fails or is interrupted.
Result<> stream_answer(const DaemonClient& client, json::object body, const AnswerHooks& hooks,
                       Answer& answer);

// Streams an answer to standard output, ending with a newline; says on standard error when loading takes a
// while and, once, which built-in chat template stands in for a missing one. `template_said` keeps that to
// once a program.
Result<> print_answer(const Environment& env, const DaemonClient& client, const std::string& model,
                      json::object body, bool& template_said, Answer& answer);

// "31 prompt tokens (12 cached) in 120 ms, 258 tok/s; 87 tokens out in 1.2 s, 72.5 tok/s; ended by stop"
std::string describe_figures(const Answer& answer);

}  // namespace gezel::cli
