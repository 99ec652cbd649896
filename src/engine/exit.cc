#include "engine/exit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "engine/redact.h"

namespace gezel::engine {
namespace {

// A row matches when the line holds one of `any` and, after it, everything in `then` in order. Rows are tried
// from the top; all text is compared without case.
struct PanicRow {
  std::string_view kind;
  std::string_view any;   // alternatives separated by '|'
  std::string_view then;  // alternatives separated by '|' that must follow; "" = nothing
  std::string_view last;  // must follow `then`; "" = nothing
  int rank;
};
constexpr std::array kPanics = {
    PanicRow{"cuda-invalid-argument",
             "cuda error: invalid argument|cuda error: invalid configuration argument", "", "", 3},
    PanicRow{"cuda-out-of-memory", "cuda error: out of memory|cuda error: memory allocation", "", "", 3},
    PanicRow{"vulkan-out-of-memory", "erroroutofdevicememory|outofdevicememoryerror", "", "", 3},
    PanicRow{"vulkan-out-of-memory", "ggml_vulkan:", "allocation|memory", "failed", 3},
    PanicRow{"cuda-illegal-memory-access", "illegal memory access", "", "", 3},
    PanicRow{"cuda-device-assert", "device-side assert", "", "", 3},
    PanicRow{"host-out-of-memory", "std::bad_alloc|cannot allocate memory|enomem|failed to allocate buffer",
             "", "", 3},
    PanicRow{"missing-library", "error while loading shared libraries|symbol lookup error", "", "", 3},
    PanicRow{kTemplateOverrun, "chat template or tokenizer ran away", "", "", 3},
    PanicRow{"assertion-failed", "ggml_assert|assert failed|assertion failed|assertion `", "", "", 2},
    PanicRow{"cuda-error", "cuda error:", "", "", 1},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return c < 0x80 ? std::tolower(c) : c; });
  return out;
}

// The end of the first alternative found in `text` from `from` on, or npos.
std::size_t find_any(std::string_view text, std::string_view alternatives, std::size_t from) {
  std::size_t best = std::string_view::npos;
  while (true) {
    const auto bar = alternatives.find('|');
    const auto word = alternatives.substr(0, bar);
    if (const auto at = text.find(word, from); at != std::string_view::npos)
      best = std::min(best, at + word.size());
    if (bar == std::string_view::npos) return best;
    alternatives.remove_prefix(bar + 1);
  }
}

bool matches(const PanicRow& row, std::string_view text) {
  auto at = find_any(text, row.any, 0);
  if (at != std::string_view::npos && !row.then.empty()) at = find_any(text, row.then, at);
  if (at != std::string_view::npos && !row.last.empty()) at = text.find(row.last, at);
  return at != std::string_view::npos;
}

}  // namespace

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "";
    case StopReason::stop:
      return "stop";
    case StopReason::idle:
      return "idle";
    case StopReason::memory_pressure:
      return "memory-pressure";
    case StopReason::startup_abort:
      return "startup-abort";
    case StopReason::health_restart:
      return "health-restart";
    case StopReason::evict:
      return "evict";
    case StopReason::reload:
      return "reload";
    case StopReason::shutdown:
      return "shutdown";
  }
  return "";
}

void PanicWatch::line(std::string_view text) {
  const std::string folded = lower(text);
  const auto row = std::ranges::find_if(kPanics, [&](const PanicRow& r) { return matches(r, folded); });
  if (row == kPanics.end() || row->rank < rank_) return;
  rank_ = row->rank;
  kind_ = row->kind;
  line_ = text.substr(0, kMaxLine);
}

void conclude(ExitSnapshot& snapshot) {
  snapshot.incident_id =
      fmt::format("native-{}-{}", snapshot.pid > 0 ? std::to_string(snapshot.pid) : "unknown",
                  unix_millis(snapshot.exited_at));
  if (!snapshot.panic_kind.empty() || !snapshot.status || !unexpected(snapshot)) return;
  if (snapshot.status->signal == SIGILL) snapshot.panic_kind = "illegal-instruction";
  if (snapshot.status->signal == SIGKILL) snapshot.panic_kind = "killed";
}

bool unexpected(const ExitSnapshot& snapshot) {
  return snapshot.expected == StopReason::none;
}

bool out_of_memory(const ExitSnapshot& snapshot) {
  return snapshot.panic_kind.ends_with("out-of-memory");
}

bool counts_as_strike(const ExitSnapshot& snapshot) {
  if (!unexpected(snapshot) || out_of_memory(snapshot)) return false;
  const bool by_signal = snapshot.status && snapshot.status->signal != 0;
  // We send SIGKILL to a process that went silent or talked nonsense, which is its own doing.
  constexpr std::array kOurs = {kHeartbeatLost, kProtocolViolation, kStuck, kTemplateOverrun};
  const bool ours = std::ranges::find(kOurs, snapshot.panic_kind) != kOurs.end();
  if (by_signal && snapshot.status->signal == SIGKILL && !ours) return false;
  return by_signal || !snapshot.panic_kind.empty();
}

bool may_be_a_requests_doing(const ExitSnapshot& snapshot) {
  constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP};
  return unexpected(snapshot) && !out_of_memory(snapshot) && snapshot.status &&
         std::ranges::find(kCrashes, snapshot.status->signal) != kCrashes.end();
}

bool proves_build_unusable(const ExitSnapshot& snapshot) {
  if (!unexpected(snapshot)) return false;
  return (snapshot.status && snapshot.status->signal == SIGILL) ||
         (snapshot.panic_kind == "missing-library" && !snapshot.reached_ready);
}

std::string describe_end(const ExitSnapshot& snapshot) {
  std::string how = snapshot.status ? describe(*snapshot.status) : "no exit status yet";
  if (snapshot.panic_kind == "killed") return how + ", as the system does when memory runs out";
  return snapshot.panic_kind.empty() ? how : snapshot.panic_kind + ", " + how;
}

json::object incident_json(const ExitSnapshot& s) {
  json::object out{{"incidentId", s.incident_id},
                   {"pid", s.pid},
                   {"model", s.model},
                   {"startedAt", iso_time(s.started_at)},
                   {"exitedAt", iso_time(s.exited_at)},
                   {"uptimeMs", s.uptime.count()}};
  if (s.status) {
    out["code"] = s.status->signal == 0 ? json::value(s.status->code) : json::value(nullptr);
    out["signal"] = s.status->signal != 0 ? json::value(s.status->signal) : json::value(nullptr);
  }
  out["expected"] = !unexpected(s);
  if (!unexpected(s)) out["expectedReason"] = stop_reason_name(s.expected);
  out["reachedReady"] = s.reached_ready;
  if (!s.panic_kind.empty()) out["panicKind"] = s.panic_kind;
  if (!s.panic_line.empty()) out["panicLine"] = redact(s.panic_line);
  if (!s.diagnostics.empty()) out["diagnostics"] = s.diagnostics;
  return out;
}

}  // namespace gezel::engine
