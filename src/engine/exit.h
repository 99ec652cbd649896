// engine/exit.h
//
// How a process of ours ended, and what that means (spec 30 section 3.9): the panic its last lines spoke of,
// whether we wanted the end, whether memory ran out. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/process.h"

namespace gezel::engine {

// Why we ended a process; `none`: we did not.
enum class StopReason {
  none,
  stop,
  idle,
  memory_pressure,
  startup_abort,
  health_restart,
  evict,
  reload,
  shutdown
};
std::string_view stop_reason_name(StopReason reason);

// Kinds that we conclude ourselves rather than read from a line.
inline constexpr std::string_view kHeartbeatLost = "heartbeat-lost";
inline constexpr std::string_view kStuck = "stuck";  // alive, but a request does not get on
// A template or tokenizer could not be stopped. Our worker says so, in a frame or in its last line.
inline constexpr std::string_view kTemplateOverrun = "template-overrun";
inline constexpr std::string_view kProtocolViolation = "protocol-violation";
inline constexpr std::string_view kConnectionLost = "connection-lost";

// Watches output lines for the reason of a death. A later line replaces the stored one when its rank is at
// least as high. It means something only if the process then ends.
class PanicWatch {
 public:
  static constexpr std::size_t kMaxLine = 1000;  // characters kept
  void line(std::string_view text);
  const std::string& kind() const { return kind_; }  // "" = none
  const std::string& panic_line() const { return line_; }

 private:
  std::string kind_, line_;
  int rank_ = 0;
};

struct ExitSnapshot {
  std::string incident_id;  // "native-<pid|unknown>-<exitedAtMs>"
  std::int64_t pid = 0;
  std::string model;
  WallTime started_at{}, exited_at{};
  Millis uptime{0};
  std::optional<ExitStatus> status;  // unset: it was still dying when we stopped waiting
  StopReason expected = StopReason::none;
  bool reached_ready = false;
  std::string panic_kind, panic_line;
  std::string output_tail;   // memory only
  json::object diagnostics;  // safe facts only
};

// Concludes the panic kind from the status where no line said more: SIGILL is `illegal-instruction`, SIGKILL
// (not ours) is `killed`.
void conclude(ExitSnapshot& snapshot);
bool unexpected(const ExitSnapshot& snapshot);
bool out_of_memory(const ExitSnapshot& snapshot);
// A death by signal or with a panic line that is neither a lack of memory nor a kill from outside: it counts
// as a strike.
bool counts_as_strike(const ExitSnapshot& snapshot);
// A death by a signal of its own making, which a request that was being computed may have caused.
bool may_be_a_requests_doing(const ExitSnapshot& snapshot);
// The build cannot run on this machine: an illegal instruction or a library that is missing.
bool proves_build_unusable(const ExitSnapshot& snapshot);
// "signal 11 (Segmentation fault)", "assertion-failed, signal 6 (Aborted)": without paths and output, fit for
// a client.
std::string describe_end(const ExitSnapshot& snapshot);
// One line for native-incidents.jsonl and the log: everything but the tail, redacted.
json::object incident_json(const ExitSnapshot& snapshot);

}  // namespace gezel::engine
