// engine/errors.cc
//
// The rows of spec 30 section 2.4 as a table: what an error code means for HTTP and for a retry.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/engine.h"

namespace gezel::engine {
namespace {

struct Row {
  std::string_view code;
  ErrorKind kind;
  int http_hint;
  Retry retry;
  std::int64_t retry_after_ms;
};

using enum ErrorKind;
constexpr std::int64_t kSoon = 1'000;    // something is about to finish
constexpr std::int64_t kMoment = 5'000;  // memory or a device must become free
constexpr std::int64_t kMinute = 60'000;
constexpr std::array kRows = {
    Row{"engine-not-installed", unavailable, 503, Retry::never, 0},
    Row{"engine-installing", unavailable, 503, Retry::after, kMoment},
    Row{"engine-launch", unavailable, 503, Retry::never, 0},
    Row{"engine-startup-timeout", unavailable, 503, Retry::same_engine, 0},
    Row{"engine-startup-fatal", unavailable, 503, Retry::never, 0},
    Row{"engine-restart-exhausted", unavailable, 503, Retry::after, kMinute},
    Row{"engine-quarantined", unavailable, 503, Retry::never, 0},
    Row{"engine-crashed", unavailable, 502, Retry::same_engine, 0},
    Row{"engine-evicted", unavailable, 503, Retry::same_engine, 0},
    Row{"engine-busy", unavailable, 503, Retry::after, kSoon},
    Row{"capacity-denied", unavailable, 503, Retry::after, kMoment},
    Row{"device-unsafe", unavailable, 503, Retry::after, kMinute},
    Row{"gpu-panic-cooldown", unavailable, 503, Retry::after, kMinute},
    Row{"context-overflow", invalid, 400, Retry::never, 0},
    Row{"invalid-request", invalid, 400, Retry::never, 0},
    Row{"unsupported-feature", invalid, 400, Retry::other_engine, 0},
    Row{"constraint-rejected", invalid, 400, Retry::never, 0},
    Row{"constraint-failed", internal, 500, Retry::never, 0},
    Row{"template-rejected", invalid, 400, Retry::never, 0},
    Row{"idle-before-first-byte", timeout, 504, Retry::same_engine, 0},
    Row{"idle-mid-stream", timeout, 504, Retry::same_engine, 0},
    Row{"turn-timeout", timeout, 504, Retry::never, 0},
    Row{"stream-dropped", unavailable, 502, Retry::same_engine, 0},
    Row{"model-invalid", corrupt, 503, Retry::never, 0},
    Row{"model-unreadable", unavailable, 503, Retry::after, kMoment},  // by this system, now
    Row{"engine-unusable", unavailable, 503, Retry::never, 0},
    Row{"engine-out-of-memory", unavailable, 503, Retry::never, 0},
    Row{"engine-sandbox", unavailable, 503, Retry::never, 0},
    Row{"engine-singleton", conflict, 503, Retry::never, 0},
    Row{"protocol-mismatch", unavailable, 426, Retry::never, 0},
    Row{"model_not_found", not_found, 404, Retry::never, 0},
    Row{"cancelled", cancelled, 499, Retry::never, 0},
    Row{"aborted-while-queued", cancelled, 499, Retry::never, 0},
    Row{"engine-internal", internal, 500, Retry::never, 0},
};

}  // namespace

EngineError make_error(std::string_view code, std::string message, std::string param) {
  auto row = std::ranges::find(kRows, code, &Row::code);
  // A code that is no row (a newer worker's, say) is our own fault, whatever it meant; it stays readable.
  if (row == kRows.end()) {
    message = fmt::format("{} (unknown error code '{}')", message, code);
    row = std::ranges::find(kRows, std::string_view("engine-internal"), &Row::code);
  }
  EngineError error;
  error.error = Error{row->kind, std::string(row->code), std::move(message), std::move(param)};
  error.retry = row->retry;
  error.http_hint = row->http_hint;
  error.retry_after_ms = row->retry_after_ms;
  return error;
}

std::string_view state_name(State state) {
  switch (state) {
    case State::stopped:
      return "stopped";
    case State::starting:
      return "starting";
    case State::ready:
      return "ready";
    case State::stopping:
      return "stopping";
    case State::exhausted:
      return "exhausted";
  }
  return "unknown";
}

}  // namespace gezel::engine
